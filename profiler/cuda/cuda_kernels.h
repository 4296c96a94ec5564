// SPDX-License-Identifier: GPL-2.0-or-later
// Element-wise, normalisation, softmax, loss, embedding and optimizer kernels for one GPU. Element
// type float, half or bf16; arithmetic in fp32. All pointers are device pointers, matrices
// row-major and dense; launches go to `stream` and return at once. The formulas are those of
// cpu_kernels.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "profiler/cuda/cuda_elements.h"

namespace arena::cuda {

enum class Type { f32, f16, bf16 };

struct Stream {
    cudaStream_t handle = nullptr;
    Type type = Type::f32;  ///< element type of the void pointers below
};

struct Norm {
    Index rows = 0, cols = 0;
    bool rms = false;  ///< no mean, no beta
    float epsilon = 1e-5F;
};
struct NormTensors {
    const void *x, *gamma, *beta;
    void* y;
    float* saved;  ///< [rows, 2]
};
/// What backward needs of forward.
struct NormInputs {
    const void *x, *gamma;
    const float* saved;
};
struct NormGradients {
    void* x;
    float *gamma, *beta;  ///< [cols]; beta's is untouched for rms
};
void norm_forward(Stream, const Norm&, const NormTensors&);
void norm_backward(Stream, const Norm&, const NormInputs&, const void* dy, const NormGradients&);

/// The same, where the gradients of gamma and beta are added to.
void norm_backward_add(Stream, const Norm&, const NormInputs&, const void* dy,
                       const NormGradients&);

void gelu_forward(Stream, Index n, const void* x, void* y);
void gelu_backward(Stream, Index n, const void* x, const void* dy, void* dx);
void swiglu_forward(Stream, Index n, const void* gate, const void* up, void* y);
void swiglu_backward(Stream, Index n, const void* gate, const void* up, const void* dy,
                     void* d_gate, void* d_up);
void add(Stream, Index n, const void* a, const void* b, void* y);
void bias_residual_forward(Stream, Index rows, Index cols, const void* x, const void* bias,
                           const void* residual, void* y);
/// d_bias: float [cols], overwritten.
void bias_residual_backward(Stream, Index rows, Index cols, const void* dy, void* dx,
                            float* d_bias);
/// sums: float [cols], added to.
void add_column_sums(Stream, Index rows, Index cols, const void* x, float* sums);

/// In place: probabilities = softmax(scale * scores) over each row of `cols`. Causal: row r sees
/// columns [0, r % cols].
void softmax_forward(Stream, Index rows, Index cols, float scale, bool causal, void* scores);
/// In place on dp: ds = p * (dp - sum(p * dp)) * scale.
void softmax_backward(Stream, Index rows, Index cols, float scale, const void* p, void* dp);

/// `heads` of each token, side by side in rows [samples * seq, width] from `offset` on.
struct HeadCopy {
    Index samples = 1, heads = 1, seq = 1, d = 1, width = 1, offset = 0;
};
/// rows to dense [samples * heads, seq, d], or back.
void copy_heads(Stream, const HeadCopy&, void* rows, void* dense, bool to_rows);

void embedding_forward(Stream, Index tokens, Index hidden, const std::int32_t* ids,
                       const void* table, void* out);
/// d_table: float [vocab, hidden], added to with atomics.
void embedding_backward(Stream, Index tokens, Index hidden, const std::int32_t* ids,
                        const void* d_out, float* d_table);

/// loss, lse: float [rows].
void cross_entropy_forward(Stream, Index rows, Index cols, const void* x, const std::int32_t* label,
                           float* loss, float* lse);
struct LossInputs {
    const void* x;
    const std::int32_t* label;
    const float* lse;
};
void cross_entropy_backward(Stream, Index rows, Index cols, const LossInputs&, float scale,
                            void* dx);

/// What an AdamW step updates.
struct AdamState {
    float *p, *m, *v;
    void* copy;  ///< of the new parameters in the stream's type; may be null
};
/// One AdamW step with gradient g of the stream's type. `step` counts from 1.
void adamw(Stream, Index n, Index step, const AdamState&, const void* g);

/// The same with factors of one's own and a gradient in fp32.
void adamw_masters(Stream, const AdamFactors&, Index n, const AdamState&, const float* g);

/// Fills with uniform numbers in [-0.5, 0.5), or ids in [0, limit); the same for the same seed.
void fill_uniform(Stream, Index n, std::uint64_t seed, void* p);
void fill_ids(cudaStream_t, Index n, std::uint64_t seed, std::int32_t limit, std::int32_t* p);
/// Random fp8 (E4M3) numbers, none of them NaN.
void fill_fp8(cudaStream_t, Index n, std::uint64_t seed, void* p);
void fill_value(cudaStream_t, Index n, float value, float* p);

}  // namespace arena::cuda
