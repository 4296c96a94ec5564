// SPDX-License-Identifier: GPL-2.0-or-later
// The operators of a training step on a CPU in fp32: GEMMs by oneDNN (or OpenBLAS), convolutions by
// oneDNN, the rest by vectorised loops over rows, fused as training frameworks fuse them. Each is
// checked against an fp64 reference. All matrices are row-major and dense; sizes are element
// counts; pointers never overlap unless said. `threads` is the number of threads to use, at
// least 1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace arena::cpu {

using Index = std::int64_t;

enum class Layout {
    nt,  ///< C[m,n] = A[m,k] B[n,k]^T   forward
    nn,  ///< C[m,n] = A[m,k] B[k,n]     data gradient
    tn,  ///< C[m,n] = A[k,m]^T B[k,n]   weight gradient
};

struct Gemm {
    Layout layout = Layout::nt;
    Index m = 0, n = 0, k = 0;
};
/// False when the build has neither OpenBLAS nor oneDNN: no GEMM, no CPU back-end.
bool have_gemm();
/// "OpenBLAS 0.3.21 SkylakeX" or "oneDNN 2.6.3".
std::string gemm_library();
/// A matrix as it is stored, and its leading dimension.
template <typename T>
struct Matrix {
    T* data;
    Index ld;
};
/// beta = 0: C is overwritten.
void gemm(const Gemm&, Matrix<const float> a, Matrix<const float> b, float beta, Matrix<float> c);
/// `batch` dense problems one after the other in memory; spread over threads when there are enough.
void batched_gemm(const Gemm&, Index batch, const float* a, const float* b, float* c, int threads);
/// Threads that one gemm() may use from now on.
void set_gemm_threads(int threads);

/// Runs body(thread, begin, end) on contiguous, nearly equal parts of [0, n).
void parallel_for(Index n, int threads, const std::function<void(int, Index, Index)>& body);
/// The same where body calls gemm(): each call there uses the thread that it is in.
void parallel_gemms(Index n, int threads, const std::function<void(int, Index, Index)>& body);

struct Attention {
    Index heads = 0;     ///< batch x query heads
    Index kv_heads = 0;  ///< batch x key/value heads; divides heads
    Index seq = 0, head_dim = 0;
    bool causal = false;
    Index value_dim = 0;  ///< of v and o; 0 = head_dim
    Index window = 0;     ///< causal only: keys that a query sees at most; 0 = all before it
};
/// q: [heads, seq, head_dim]; o: [heads, seq, value_dim]; k: [kv_heads, seq, head_dim]; v:
/// [kv_heads, seq, value_dim]; lse: [heads, seq], log-sum-exp of the scaled scores. Blocks of query
/// rows: GEMM, softmax, GEMM; the seq x seq matrix is never stored.
void attention_forward(const Attention&, const float* q, const float* k, const float* v, float* o,
                       float* lse, int threads);
/// What forward was given and has written.
struct AttentionTensors {
    const float *q, *k, *v, *o, *lse;
};
struct AttentionGradients {
    float *q, *k, *v;
};
/// Recomputes the probabilities from lse, as fused kernels do; overwrites the gradients.
void attention_backward(const Attention&, const AttentionTensors&, const float* d_o,
                        const AttentionGradients&, int threads);

struct Norm {
    Index rows = 0, cols = 0;
    bool rms = false;  ///< no mean, no beta
    float epsilon = 1e-5F;
};
struct NormTensors {
    const float *x, *gamma, *beta;
    float *y, *saved;
};
/// What backward needs of forward.
struct NormInputs {
    const float *x, *gamma, *saved;
};
struct NormGradients {
    float *x, *gamma, *beta;
};
/// saved: [rows, 2] mean and reciprocal deviation. beta may be null for rms.
void norm_forward(const Norm&, const NormTensors&, int threads);
/// partial: scratch [threads, 2, cols]. The gradient of beta is untouched for rms.
void norm_backward(const Norm&, const NormInputs&, const float* dy, const NormGradients&,
                   float* partial, int threads);

/// y = gelu(x), tanh form.
void gelu_forward(Index n, const float* x, float* y, int threads);
void gelu_backward(Index n, const float* x, const float* dy, float* dx, int threads);
/// y = gate * sigmoid(gate) * up.
void swiglu_forward(Index n, const float* gate, const float* up, float* y, int threads);
void swiglu_backward(Index n, const float* gate, const float* up, const float* dy, float* d_gate,
                     float* d_up, int threads);
/// y = x + bias + residual, bias per column.
void bias_residual_forward(Index rows, Index cols, const float* x, const float* bias,
                           const float* residual, float* y, int threads);
/// dx = dy, d_bias = column sums of dy. partial: scratch [threads, cols].
void bias_residual_backward(Index rows, Index cols, const float* dy, float* dx, float* d_bias,
                            float* partial, int threads);
void add(Index n, const float* a, const float* b, float* y, int threads);

/// out[t] = table[ids[t]]; ids in [0, vocab).
void embedding_forward(Index tokens, Index hidden, const std::int32_t* ids, const float* table,
                       float* out, int threads);
/// d_table[ids[t]] += d_out[t], deterministic: a thread owns a range of rows of the table.
void embedding_backward(Index tokens, Index hidden, Index vocab, const std::int32_t* ids,
                        const float* d_out, float* d_table, int threads);

/// loss[r] = lse[r] - x[r, label[r]].
void cross_entropy_forward(Index rows, Index cols, const float* x, const std::int32_t* label,
                           float* loss, float* lse, int threads);
struct LossInputs {
    const float* x;
    const std::int32_t* label;
    const float* lse;
};
/// dx = (softmax(x) - onehot(label)) * scale.
void cross_entropy_backward(Index rows, Index cols, const LossInputs&, float scale, float* dx,
                            int threads);

/// saved: [2, cols] mean and reciprocal deviation of each column. partial: scratch [threads, 2,
/// cols].
void batch_norm_forward(Index rows, Index cols, const NormTensors&, float* partial, int threads);
void batch_norm_backward(Index rows, Index cols, const NormInputs&, const float* dy,
                         const NormGradients&, float* partial, int threads);
void relu_forward(Index n, const float* x, float* y, int threads);
void relu_backward(Index n, const float* x, const float* dy, float* dx, int threads);

/// A square convolution: the input has edge * stride rows and columns.
struct Conv {
    enum class Direction {
        forward,  ///< result = source * filter
        data,     ///< source gradient from result gradient and filter
        weights,  ///< filter gradient from source and result gradient
    } direction = Direction::forward;
    Index images = 0, in = 0, out = 0;  ///< channels
    Index edge = 0;                     ///< of the result
    Index kernel = 1, stride = 1;
};
/// False when the build has no oneDNN.
bool have_convolution();
/// A convolution prepared for one direction. Images are channels-last; filters are packed.
class Convolution {
  public:
    Convolution(const Conv&, int threads);
    [[nodiscard]] Index source_size() const;
    [[nodiscard]] Index filter_size() const;  ///< packed
    [[nodiscard]] Index result_size() const;
    /// Filters [out, in, kernel, kernel] to and from the packed layout.
    void pack(const float* oihw, float* packed) const;
    void unpack(const float* packed, float* oihw) const;
    /// The direction says which of the three is written.
    void run(const float* source, const float* filter, const float* result) const;

  private:
    struct State;
    std::shared_ptr<const State> state_;
};

struct AdamW {
    float rate = 1e-4F, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, decay = 0.1F;
    Index step = 1;  ///< from 1, for the bias correction
};
/// p, m, v are updated in place; v must not be negative.
void adamw(const AdamW&, Index n, float* p, const float* g, float* m, float* v, int threads);

}  // namespace arena::cpu
