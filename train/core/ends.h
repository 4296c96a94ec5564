// SPDX-License-Identifier: GPL-2.0-or-later
// Both ends of a GPT: the embedding of tokens and positions, and the head that turns the last
// block's output into the loss. The token table is split by rows of the vocabulary over the
// tensor-parallel ranks; the cross-entropy is computed on the shards and joined by three
// all-reduces of one value per token (Megatron-LM's vocabulary-parallel loss).
#pragma once

#include <cstdint>

#include "train/core/block.h"

namespace arena::train {

class Embedding {
  public:
    Embedding(const BlockShape&, Weights&, Group& shards);
    /// ids [tokens], each in [0, vocab); output [tokens, hidden].
    void forward(Tokens ids, Pointer<Element> output);
    /// Adds to the gradients of both tables.
    void backward(Tokens ids, Pointer<const Element> gradient);
    /// As Block's.
    void set_samples(Index samples) { s_.samples = samples; }

  private:
    [[nodiscard]] Index span() const { return s_.seq * s_.hidden; }  ///< of a sample
    [[nodiscard]] LogitsShape rows() const { return {s_.tokens(), rows_.size(), rows_.begin}; }

    BlockShape s_;
    Device& device_;
    Group& shards_;
    Weights& weights_;
    Index tokens_, positions_;  ///< tensors
    Range rows_;                ///< of the token table
};

class Head {
  public:
    /// The head's matrix is lm_head.weight where there is one, else wte.weight (or its shadow).
    Head(const BlockShape&, Weights&, Group& shards);
    /// Adds the cross-entropy of each token, in nats; the same on all shards. Keeps what backward()
    /// needs.
    void forward(Pointer<const Element> input, Tokens labels, Device::Sum loss);
    /// gradient [tokens, hidden] of `scale` times the loss of the forward before.
    void backward(Pointer<const Element> input, Tokens labels, float scale,
                  Pointer<Element> gradient);
    /// As Block's.
    void set_samples(Index samples) { s_.samples = samples; }

  private:
    [[nodiscard]] LogitsShape rows() const { return {s_.tokens(), rows_.size(), rows_.begin}; }

    BlockShape s_;
    Device& device_;
    Group& shards_;
    Weights& weights_;
    Index gamma_, beta_, table_;  ///< tensors
    Range rows_;
    Elements norm_, logits_;  ///< logits: of this shard; after forward() the device's own
    Floats saved_, top_, target_, sum_;  ///< [tokens, 2]; [tokens] each
    Elements d_norm_;
};

}  // namespace arena::train
