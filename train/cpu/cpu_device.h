// SPDX-License-Identifier: GPL-2.0-or-later
// What the layers are computed with on a CPU, in fp32. The other devices (far.h) have members of
// the same names: they are the interface that block.cc, ends.cc, pipeline.cc and optimizer.cc are
// written to. Matrices are row-major and dense. Kernels are those that the profiler measures
// (profiler/cpu/cpu_kernels.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "profiler/cpu/cpu_kernels.h"
#include "train/comm/comm.h"
#include "train/core/shape.h"

namespace arena::train {

using Layout = cpu::Layout;

/// [samples, heads, seq, head_dim], causal; every head has its own key and value.
struct AttentionShape {
    Index samples = 1, heads = 1, seq = 1, head_dim = 1;
};
/// [samples, seq, parts, heads, head_dim], of which one part is taken.
struct HeadsShape {
    AttentionShape of;
    Index part = 0, parts = 1;
};
/// Labels of a vocabulary of which this shard has the rows from `first` on, `width` of them.
struct LogitsShape {
    Index tokens = 0, width = 0, first = 0;
};
/// One AdamW step; `step` counts from 1.
using AdamW = cpu::AdamW;

class CpuDevice {
  public:
    /// Tensors begin at multiples of so many elements of the flat arrays.
    static constexpr Index alignment = 1;
    /// Implicit: a number of threads says all of it.
    CpuDevice(int threads = 1) : threads_(threads) {}
    static std::string name() { return "cpu"; }

    /// c = a b, by layout.
    void multiply(Layout, Index m, Index n, Index k, const float* a, const float* b,
                  float* c) const;
    /// c += a b, in fp32.
    void multiply_add(Layout, Index m, Index n, Index k, const float* a, const float* b,
                      float* c) const;

    /// LayerNorm of each row; saved: [rows, 2].
    void norm_forward(Index rows, Index cols, const float* x, const float* gamma, const float* beta,
                      float* y, float* saved) const;
    /// Memory of norm_backward().
    struct NormScratch {
        NormScratch(Index cols, const CpuDevice&);
        std::vector<float> partial, gamma, beta;
    };
    /// dx is overwritten; d_gamma and d_beta are added to.
    void norm_backward(Index rows, Index cols, const float* x, const float* gamma,
                       const float* saved, const float* dy, float* dx, float* d_gamma,
                       float* d_beta, NormScratch&) const;

    /// y[r, c] += bias[c].
    void add_bias(Index rows, Index cols, const float* bias, float* y) const;
    /// sums[c] += sum over rows of x[r, c], in fp32.
    void add_column_sums(Index rows, Index cols, const float* x, float* sums) const;
    /// a[i] += b[i].
    void accumulate(Index n, const float* b, float* a) const;
    /// y = x + bias + residual.
    void bias_residual(Index rows, Index cols, const float* x, const float* bias,
                       const float* residual, float* y) const;
    void gelu_forward(Index n, const float* x, float* y) const;
    void gelu_backward(Index n, const float* x, const float* dy, float* dx) const;

    /// heads [samples, heads, seq, head_dim] from one part of rows, and back.
    void to_heads(const HeadsShape&, const float* rows, float* heads) const;
    void to_rows(const HeadsShape&, const float* heads, float* rows) const;
    struct AttentionTensors {
        const float *q, *k, *v;
        float *out, *lse;  ///< lse: [samples, heads, seq], what backward needs of the softmax
    };
    void attention_forward(const AttentionShape&, const AttentionTensors&) const;
    void attention_backward(const AttentionShape&, const AttentionTensors&, const float* d_out,
                            float* dq, float* dk, float* dv) const;

    /// out[t] = table[ids[t] - first], 0 where the table has no such row.
    void gather_rows(const LogitsShape&, Index hidden, std::span<const std::int32_t> ids,
                     const float* table, float* out) const;
    /// d_table[ids[t] - first] += d_out[t], in fp32.
    void scatter_rows(const LogitsShape&, Index hidden, std::span<const std::int32_t> ids,
                      const float* d_out, float* d_table) const;

    /// top[t] = the largest logit; target[t] = that of the label, 0 where it is another shard's.
    void top_and_target(const LogitsShape&, const float* logits,
                        std::span<const std::int32_t> labels, float* top, float* target) const;
    /// sums[t] = sum of exp(logit - top[t]). The logits are for logits_gradient() alone then.
    void sum_exponentials(const LogitsShape&, float* logits, const float* top, float* sums) const;
    /// In place after sum_exponentials(): scale * (softmax - label).
    void logits_gradient(const LogitsShape&, float* logits, std::span<const std::int32_t> labels,
                         const float* top, const float* sums, float scale) const;

    /// A sum in fp64 where the device is; value() waits for it.
    struct Sum {
        double value = 0;
    };
    static void clear(Sum& sum) { sum.value = 0; }
    static double value(const Sum& sum) { return sum.value; }
    /// sum += sum over tokens of log(sums[t]) + top[t] - target[t].
    void add_losses(Index tokens, const float* top, const float* target, const float* sums,
                    Sum&) const;
    /// sum += sum of squares.
    void add_squares(Index n, const float* x, Sum&) const;

    void scale(Index n, float factor, float* x) const;
    void fill_zero(std::span<float>) const;
    /// Updates masters and moments by the gradient; `weights` are the masters here.
    void adamw(const AdamW&, Index n, float* masters, const float* gradient, float* first,
               float* second, float* weights) const;

    /// Where the layers find the tokens: here the host's own. `storage` is a far device's.
    using TokenStorage = std::vector<std::int32_t>;
    static std::span<const std::int32_t> upload(const std::vector<std::int32_t>& tokens,
                                                TokenStorage&) {
        return tokens;
    }
    static void upload(std::span<const float> host, float* to);
    static void download(const float* from, std::span<float> host);
    /// Of what was launched; nothing here, where a call returns when it is done.
    static void wait() {}

  private:
    int threads_;
};

}  // namespace arena::train
