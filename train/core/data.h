// SPDX-License-Identifier: GPL-2.0-or-later
// The training data: a file of bytes or of little-endian token ids, mapped, cut into samples of seq
// + 1 tokens that share one token with the next. Which sample comes when depends on the seed and on
// the number of samples before it alone, so that every plan and every resumed run sees the same
// batches.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "train/core/shape.h"

namespace arena::train {

enum class TokenWidth { u8 = 1, u16 = 2, u32 = 4 };  ///< bytes

class TokenFile {
  public:
    /// Refuses what is missing, no regular file, not whole tokens, or shorter than one sample.
    static Result<TokenFile> open(const std::string& path, TokenWidth, Index seq, Index vocab);
    TokenFile(TokenFile&&) noexcept;
    TokenFile& operator=(TokenFile&&) = delete;
    ~TokenFile();

    [[nodiscard]] Index tokens() const { return tokens_; }
    [[nodiscard]] Index samples() const { return (tokens_ - 1) / seq_; }
    /// inputs and labels [seq] of one sample in [0, samples). An error names the first token that
    /// is not below the vocabulary.
    Status read(Index sample, std::span<std::int32_t> inputs, std::span<std::int32_t> labels) const;

  private:
    TokenFile(std::string path, const unsigned char* data, std::size_t bytes, TokenWidth, Index seq,
              Index vocab);
    [[nodiscard]] Index token(Index position) const;

    std::string path_;
    const unsigned char* data_;
    std::size_t bytes_;
    TokenWidth width_;
    Index seq_, vocab_, tokens_;
};

/// The sample that is drawn as the n-th of a run, n from 0: each epoch is another permutation of
/// all samples (a Feistel network over the next power of four, walked until it falls into the
/// range).
Index sample_of(Index n, Index samples, std::uint64_t seed);

}  // namespace arena::train
