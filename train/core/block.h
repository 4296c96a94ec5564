// SPDX-License-Identifier: GPL-2.0-or-later
// One transformer block on one rank, forward and backward by hand, with Megatron-LM's tensor
// parallelism: the first matrix of attention and of the MLP is split by columns, the second by
// rows, and two all-reduces a pass join the shards. What it computes with is device.h's. Left out:
// dropout.
#pragma once

#include <vector>

#include "train/core/device.h"
#include "train/core/weights.h"

namespace arena::train {

using Elements = Array<Element>;
using Floats = Array<float>;

/// One rank's sizes of a micro-batch.
struct BlockShape {
    Index samples = 1, seq = 1, hidden = 1;
    Index heads = 1, head_dim = 1, ffn = 1;  ///< this shard's heads and MLP columns
    Device& device;
    [[nodiscard]] Index tokens() const { return samples * seq; }
    [[nodiscard]] Index width() const { return heads * head_dim; }
    [[nodiscard]] AttentionShape attention() const { return {samples, heads, seq, head_dim}; }
    /// [tokens, columns]
    [[nodiscard]] Elements elements(Index columns) const {
        return {device, at(tokens() * columns)};
    }
    [[nodiscard]] Floats floats(Index columns) const { return {device, at(tokens() * columns)}; }
};
BlockShape block_shape(const GptShape&, Index tp, Index samples, Device&);

/// What attention leaves for its backward. Selective recomputation drops it.
struct AttentionCore {
    Elements out;      ///< [samples, heads, seq, head_dim]
    Floats lse;        ///< [samples, heads, seq]
    Elements context;  ///< [tokens, heads * head_dim]: out, in the order that the projection reads
    explicit AttentionCore(const BlockShape&);
};

/// What else the forward leaves. Full recomputation keeps `input` alone, in a place of its own.
struct BlockState {
    Elements norm_1;             ///< [tokens, hidden]
    Floats saved_1;              ///< [tokens, 2]
    Elements query, key, value;  ///< [samples, heads, seq, head_dim]
    Elements middle;             ///< [tokens, hidden]: input + attention
    Elements norm_2;
    Floats saved_2;
    Elements up, active;  ///< [tokens, ffn] before and after GELU
    explicit BlockState(const BlockShape&);
};

/// Working memory that no two passes need at once; one for a rank.
struct BlockScratch {
    Elements qkv, d_qkv;                                 ///< [tokens, 3 * heads * head_dim]
    Elements d_hidden, d_middle, d_norm;                 ///< [tokens, hidden]
    Elements d_active, d_up;                             ///< [tokens, ffn]
    Elements d_context, d_out, d_query, d_key, d_value;  ///< [tokens, heads * head_dim]
    explicit BlockScratch(const BlockShape&);
};

class Block {
  public:
    using Input = Pointer<const Element>;
    /// `first_tensor`: index of ln_1_weight in the weights. All references outlive the block.
    Block(const BlockShape&, Weights&, Index first_tensor, Group& shards, BlockScratch&);

    /// output = block(input), both [tokens, hidden]; they may not overlap.
    void forward(Input, BlockState&, AttentionCore&, Pointer<Element> output);
    /// Fills state and core again from the input: full recomputation.
    void recompute(Input, BlockState&, AttentionCore&);
    /// Fills core again from state: selective recomputation.
    void recompute_core(BlockState&, AttentionCore&);
    /// gradient [tokens, hidden] of the output in, of the input out; adds to the weights'
    /// gradients.
    void backward(Input, BlockState&, AttentionCore&, Pointer<Element> gradient);
    /// Of what is computed from now on; at most those that it was made for.
    void set_samples(Index samples) { s_.samples = samples; }

  private:
    void attend(Input, BlockState&, AttentionCore&);
    void expand(BlockState&);
    void backward_mlp(BlockState&, Pointer<Element> gradient);
    void backward_attention(Input, BlockState&, AttentionCore&, Pointer<Element> gradient);
    void backward_norm(Input x, BlockTensor weight, Floats& saved, Pointer<Element> d_x);
    void add_matrix_gradient(BlockTensor, Input d_out, Index out, Input in, Index width);
    void add_bias_gradient(BlockTensor, Input d_out, Index cols);
    [[nodiscard]] Pointer<Element> w(Index tensor) { return weights_.weight(first_ + tensor); }
    [[nodiscard]] Pointer<float> g(Index tensor) { return weights_.gradient(first_ + tensor); }
    static Device::AttentionTensors tensors(BlockState&, AttentionCore&);
    void unpack(BlockState&);
    void pack_gradients();

    BlockShape s_;
    Device& device_;
    Group& shards_;
    BlockScratch& scratch_;
    Weights& weights_;
    Index first_;
};

}  // namespace arena::train
