// SPDX-License-Identifier: GPL-2.0-or-later
// One transformer block on one rank, forward and backward by hand, with Megatron-LM's tensor
// parallelism: the first matrix of attention and of the MLP is split by columns, the second by
// rows, and two all-reduces a pass join the shards. Kernels are those that the profiler measures
// (profiler/cpu_kernels.h). Left out: dropout.
#pragma once

#include <vector>

#include "profiler/cpu_kernels.h"
#include "train/comm.h"
#include "train/parameters.h"

namespace arena::train {

/// One rank's sizes of a micro-batch.
struct BlockShape {
    Index samples = 1, seq = 1, hidden = 1;
    Index heads = 1, head_dim = 1, ffn = 1;  ///< this shard's heads and MLP columns
    int threads = 1;
    [[nodiscard]] Index tokens() const { return samples * seq; }
    [[nodiscard]] Index width() const { return heads * head_dim; }
};
BlockShape block_shape(const GptShape&, Index tp, Index samples, int threads);

using Floats = std::vector<float>;

/// What attention leaves for its backward. Selective recomputation drops it.
struct AttentionCore {
    Floats out;      ///< [samples, heads, seq, head_dim]
    Floats lse;      ///< [samples, heads, seq]
    Floats context;  ///< [tokens, heads * head_dim]: out, in the order that the projection reads
    explicit AttentionCore(const BlockShape&);
};

/// What else the forward leaves. Full recomputation keeps `input` alone, in a place of its own.
struct BlockState {
    Floats norm_1, saved_1;    ///< [tokens, hidden], [tokens, 2]
    Floats query, key, value;  ///< [samples, heads, seq, head_dim]
    Floats middle;             ///< [tokens, hidden]: input + attention
    Floats norm_2, saved_2;
    Floats up, active;  ///< [tokens, ffn] before and after GELU
    explicit BlockState(const BlockShape&);
};

/// Working memory that no two passes need at once; one for a rank.
struct BlockScratch {
    Floats qkv, d_qkv;                  ///< [tokens, 3 * heads * head_dim]
    Floats d_hidden, d_middle, d_norm;  ///< [tokens, hidden]
    Floats d_active, d_up;              ///< [tokens, ffn]
    Floats d_context, d_out, d_query, d_key, d_value;
    Floats partial, sums, sums_2;
    explicit BlockScratch(const BlockShape&);
};

/// Weights or gradients of a block, or both, by the order of BlockTensor.
using BlockPointers = float* [block_tensors];

class Block {
  public:
    /// `first_tensor`: index of ln_1_weight in the parameters. All references outlive the block.
    Block(const BlockShape&, Parameters&, Index first_tensor, Comm& shards, BlockScratch&);

    /// output = block(input), both [tokens, hidden]; they may not overlap.
    void forward(const float* input, BlockState&, AttentionCore&, float* output);
    /// Fills state and core again from the input: full recomputation.
    void recompute(const float* input, BlockState&, AttentionCore&);
    /// Fills core again from state: selective recomputation.
    void recompute_core(const BlockState&, AttentionCore&);
    /// gradient [tokens, hidden] of the output in, of the input out; adds to the weights'
    /// gradients.
    void backward(const float* input, const BlockState&, const AttentionCore&, float* gradient);

  private:
    void attend(const float* input, BlockState&, AttentionCore&);
    void expand(BlockState&);
    void backward_mlp(const BlockState&, float* gradient);
    void backward_attention(const float* input, const BlockState&, const AttentionCore&,
                            float* gradient);
    void backward_norm(const float* x, BlockTensor weight, const Floats& saved, float* d_x);
    void add_matrix_gradient(BlockTensor, const float* d_out, Index out, const float* in,
                             Index width);
    void add_bias_gradient(BlockTensor, const float* d_out, Index cols);
    void unpack(BlockState&);
    void pack_gradients();

    BlockShape s_;
    Comm& shards_;
    BlockScratch& scratch_;
    BlockPointers w_, g_;
};

/// y[r, c] += b[c].
void add_bias(Index rows, Index cols, const float* bias, float* y);
/// sums[c] += sum over rows of x[r, c].
void add_column_sums(Index rows, Index cols, const float* x, float* sums);
/// a[i] += b[i].
void accumulate(Index n, const float* b, float* a);

}  // namespace arena::train
