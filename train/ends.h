// SPDX-License-Identifier: GPL-2.0-or-later
// Both ends of a GPT: the embedding of tokens and positions, and the head that turns the last
// block's output into the loss. The token table is split by rows of the vocabulary over the
// tensor-parallel ranks; the cross-entropy is computed on the shards and joined by three
// all-reduces of one value per token (Megatron-LM's vocabulary-parallel loss).
#pragma once

#include <cstdint>
#include <span>

#include "train/block.h"

namespace arena::train {

class Embedding {
  public:
    Embedding(const BlockShape&, Parameters&, Comm& shards);
    /// ids [tokens], each in [0, vocab); output [tokens, hidden].
    void forward(std::span<const std::int32_t> ids, float* output);
    /// Adds to the gradients of both tables.
    void backward(std::span<const std::int32_t> ids, const float* gradient);

  private:
    BlockShape s_;
    Comm& shards_;
    Range rows_;  ///< of the token table
    float *tokens_, *d_tokens_, *positions_, *d_positions_;
};

class Head {
  public:
    /// The head's matrix is lm_head.weight where there is one, else wte.weight (or its shadow).
    Head(const BlockShape&, Parameters&, Comm& shards);
    /// Sum over tokens of the cross-entropy in nats; the same on all shards. Keeps what backward()
    /// needs.
    double forward(const float* input, std::span<const std::int32_t> labels);
    /// gradient [tokens, hidden] of `scale` times the loss of the forward before.
    void backward(const float* input, std::span<const std::int32_t> labels, float scale,
                  float* gradient);

  private:
    [[nodiscard]] float* logits_of(Index token) { return logits_.data() + token * rows_.size(); }
    void exponentiate();

    BlockShape s_;
    Comm& shards_;
    Range rows_;
    float *gamma_, *beta_, *d_gamma_, *d_beta_, *table_, *d_table_;
    Floats norm_, saved_, logits_;  ///< logits: of this shard; after forward() their exponentials
    Floats top_, target_, sum_;     ///< [tokens]
    Floats d_norm_, partial_, sums_, sums_2_;
};

}  // namespace arena::train
