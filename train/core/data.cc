// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/core/data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "train/core/parameters.h"

namespace arena::train {

Result<TokenFile> TokenFile::open(const std::string& path, TokenWidth width, Index seq,
                                  Index vocab) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return environment_error(fmt::format("cannot be opened: {}", std::strerror(errno)), path);
    struct stat facts {};
    const bool known = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
    const auto bytes = static_cast<std::size_t>(known ? facts.st_size : 0);
    const auto each = static_cast<std::size_t>(width);
    void* data = bytes == 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (!known) return environment_error("is not a regular file", path);
    TokenFile file(path, data == MAP_FAILED ? nullptr : static_cast<const unsigned char*>(data),
                   bytes, width, seq, vocab);
    if (bytes % each != 0)
        return usage_error(
            fmt::format("has {} bytes, which is no whole number of tokens of {} bytes", bytes,
                        each),
            path);
    if (file.tokens_ <= seq)
        return usage_error(
            fmt::format("has {} tokens; one sample takes {} (seq-length and one more)",
                        file.tokens_, seq + 1),
            path);
    if (file.data_ == nullptr) return environment_error("cannot be mapped into memory", path);
    return file;
}

TokenFile::TokenFile(std::string path, const unsigned char* data, std::size_t bytes,
                     TokenWidth width, Index seq, Index vocab)
    : path_(std::move(path)),
      data_(data),
      bytes_(bytes),
      width_(width),
      seq_(seq),
      vocab_(vocab),
      tokens_(static_cast<Index>(bytes / static_cast<std::size_t>(width))) {}

TokenFile::TokenFile(TokenFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      width_(other.width_),
      seq_(other.seq_),
      vocab_(other.vocab_),
      tokens_(other.tokens_) {}

TokenFile::~TokenFile() {
    if (data_ != nullptr) munmap(const_cast<unsigned char*>(data_), bytes_);
}

Index TokenFile::token(Index position) const {
    const unsigned char* at = data_ + position * static_cast<Index>(width_);
    Index value = 0;
    for (Index i = static_cast<Index>(width_) - 1; i >= 0; --i) value = value << 8 | at[i];
    return value;
}

Status TokenFile::read(Index sample, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> labels) const {
    const Index first = sample * seq_;
    for (Index i = 0; i <= seq_; ++i) {
        const Index id = token(first + i);
        if (id >= vocab_)
            return usage_error(
                fmt::format("token {} at position {} is not below the vocabulary of {}", id,
                            first + i, vocab_),
                path_);
        if (i < seq_) inputs[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(id);
        if (i > 0) labels[static_cast<std::size_t>(i - 1)] = static_cast<std::int32_t>(id);
    }
    return Done{};
}

namespace {

/// A permutation of [0, 4^bits).
std::uint64_t feistel(std::uint64_t x, unsigned bits, std::uint64_t key) {
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    std::uint64_t left = x >> bits, right = x & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
        const std::uint64_t next =
            left ^ (splitmix((key + round * splitmix_step) ^ splitmix(right)) & mask);
        left = std::exchange(right, next);
    }
    return left << bits | right;
}

}  // namespace

Index sample_of(Index n, Index samples, std::uint64_t seed) {
    const auto count = static_cast<std::uint64_t>(samples);
    const std::uint64_t key = splitmix(seed ^ splitmix(static_cast<std::uint64_t>(n / samples)));
    unsigned bits = 1;
    while ((std::uint64_t{1} << 2 * bits) < count) ++bits;
    auto x = static_cast<std::uint64_t>(n % samples);
    do x = feistel(x, bits, key);
    while (x >= count);
    return static_cast<Index>(x);
}

}  // namespace arena::train
