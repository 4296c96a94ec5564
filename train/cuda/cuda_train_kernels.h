// SPDX-License-Identifier: GPL-2.0-or-later
// Kernels of arena-train that the profiler does not measure by themselves: layouts of heads, the
// vocabulary's shards, sums for the loss and the gradients' norm. Conventions of
// profiler/cuda/cuda_kernels.h; what an element becomes is in profiler/cuda/cuda_elements.h.
#pragma once

#include "profiler/cuda/cuda_elements.h"
#include "profiler/cuda/cuda_kernels.h"

namespace arena::cuda {

/// y[r, c] += bias[c].
void add_bias(Stream, Index rows, Index cols, const void* bias, void* y);

/// heads from one part of rows, and back.
void to_heads(Stream, const HeadsLayout&, const void* rows, void* heads);
void to_rows(Stream, const HeadsLayout&, const void* heads, void* rows);

/// out[t] = table[ids[t] - first], 0 where the shard has no such row.
void gather_rows(Stream, const VocabularyShard&, Index tokens, Index hidden,
                 const std::int32_t* ids, const void* table, void* out);
/// d_table: float [width, hidden], added to with atomics.
void scatter_rows(Stream, const VocabularyShard&, Index tokens, Index hidden,
                  const std::int32_t* ids, const void* d_out, float* d_table);

/// Logits [tokens, width] of a shard. top, target, sums: float [tokens].
void top_and_target(Stream, const VocabularyShard&, Index tokens, const void* logits,
                    const std::int32_t* labels, float* top, float* target);
void sum_exponentials(Stream, const VocabularyShard&, Index tokens, const void* logits,
                      const float* top, float* sums);
/// Of a row's softmax: the largest logit and the sum of exponentials, float [tokens] each.
struct SoftmaxRows {
    const float *top, *sums;
};
/// In place.
void logits_gradient(Stream, const VocabularyShard&, Index tokens, void* logits,
                     const std::int32_t* labels, const SoftmaxRows&, float scale);

/// Added to *sum in fp64, with atomics.
void add_losses(cudaStream_t, Index tokens, const float* top, const float* target,
                const float* sums, double* sum);
void add_squares(cudaStream_t, Index n, const float* x, double* sum);
/// x *= factor.
void scale(cudaStream_t, Index n, float factor, float* x);

}  // namespace arena::cuda
