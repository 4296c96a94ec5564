// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/cpu/cpu_device.h"

#include <algorithm>
#include <cmath>

#include "profiler/cpu/cpu_math.h"

namespace arena::train {
namespace {

ARENA_CLONES void add_to(Index n, const float* b, float* a) {
#pragma omp simd
    for (Index i = 0; i < n; ++i) a[i] += b[i];
}
ARENA_CLONES void multiply_by(Index n, float factor, float* x) {
#pragma omp simd
    for (Index i = 0; i < n; ++i) x[i] *= factor;
}
ARENA_CLONES double squares(Index n, const float* x) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return sum;
}
ARENA_CLONES float largest(Index n, const float* x) {
    float top = x[0];
#pragma omp simd reduction(max : top)
    for (Index i = 0; i < n; ++i) top = std::max(top, x[i]);
    return top;
}

/// Threads for so many floats: one where there is less to do than waking another takes.
int threads_for(Index floats, int threads) { return floats < (1 << 15) ? 1 : threads; }

/// f(begin, end) on parts of [0, n), each item of `size` floats.
template <typename F>
void spread(Index n, Index size, int threads, F f) {
    cpu::parallel_for(n, threads_for(n * size, threads),
                      [&](int, Index begin, Index end) { f(begin, end); });
}

/// Rows of `head_dim` floats: f(index in rows, index in heads).
template <typename F>
void for_each_head_row(const HeadsShape& h, int threads, F f) {
    const AttentionShape& s = h.of;
    spread(s.samples * s.seq, s.heads * s.head_dim, threads, [&](Index begin, Index end) {
        for (Index token = begin; token < end; ++token) {
            const Index b = token / s.seq, t = token % s.seq;
            for (Index i = 0; i < s.heads; ++i)
                f(((token * h.parts + h.part) * s.heads + i) * s.head_dim,
                  ((b * s.heads + i) * s.seq + t) * s.head_dim);
        }
    });
}

cpu::Attention attention(const AttentionShape& s) {
    const Index heads = s.samples * s.heads;
    return {
        .heads = heads, .kv_heads = heads, .seq = s.seq, .head_dim = s.head_dim, .causal = true};
}

/// Subtracts `top`, exponentiates in place, returns the sum.
ARENA_CLONES float exponentials(Index n, float top, float* x) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = 0; i < n; ++i) {
        x[i] = cpu::fast_exp(x[i] - top);
        sum += x[i];
    }
    return sum;
}

/// Position of an id in the shard, -1 where it is not there.
Index place_of(const LogitsShape& s, std::int32_t id) {
    const Index row = id - s.first;
    return row >= 0 && row < s.width ? row : -1;
}

void multiply_beta(Layout layout, Index m, Index n, Index k, const float* a, const float* b,
                   float beta, float* c) {
    cpu::gemm({layout, m, n, k}, a, layout == Layout::tn ? m : k, b, layout == Layout::nt ? k : n,
              beta, c, n);
}

}  // namespace

void CpuDevice::multiply(Layout layout, Index m, Index n, Index k, const float* a, const float* b,
                         float* c) const {
    multiply_beta(layout, m, n, k, a, b, 0, c);
}
void CpuDevice::multiply_add(Layout layout, Index m, Index n, Index k, const float* a,
                             const float* b, float* c) const {
    multiply_beta(layout, m, n, k, a, b, 1, c);
}

void CpuDevice::norm_forward(Index rows, Index cols, const float* x, const float* gamma,
                             const float* beta, float* y, float* saved) const {
    cpu::norm_forward({rows, cols}, x, gamma, beta, y, saved, threads_);
}
CpuDevice::NormScratch::NormScratch(Index cols, const CpuDevice& device)
    : partial(at(2 * cols * device.threads_)), gamma(at(cols)), beta(at(cols)) {}
void CpuDevice::norm_backward(Index rows, Index cols, const float* x, const float* gamma,
                              const float* saved, const float* dy, float* dx, float* d_gamma,
                              float* d_beta, NormScratch& s) const {
    cpu::norm_backward({rows, cols}, x, gamma, saved, dy, dx, s.gamma.data(), s.beta.data(),
                       s.partial.data(), threads_);
    add_to(cols, s.gamma.data(), d_gamma);
    add_to(cols, s.beta.data(), d_beta);
}

void CpuDevice::add_bias(Index rows, Index cols, const float* bias, float* y) const {
    spread(rows, cols, threads_, [&](Index begin, Index end) {
        for (Index r = begin; r < end; ++r) add_to(cols, bias, y + r * cols);
    });
}
void CpuDevice::add_column_sums(Index rows, Index cols, const float* x, float* sums) const {
    spread(cols, rows, threads_, [&](Index begin, Index end) {
        for (Index r = 0; r < rows; ++r) add_to(end - begin, x + r * cols + begin, sums + begin);
    });
}
void CpuDevice::accumulate(Index n, const float* b, float* a) const {
    spread(n, 1, threads_,
           [&](Index begin, Index end) { add_to(end - begin, b + begin, a + begin); });
}
void CpuDevice::bias_residual(Index rows, Index cols, const float* x, const float* bias,
                              const float* residual, float* y) const {
    cpu::bias_residual_forward(rows, cols, x, bias, residual, y, threads_);
}
void CpuDevice::gelu_forward(Index n, const float* x, float* y) const {
    cpu::gelu_forward(n, x, y, threads_);
}
void CpuDevice::gelu_backward(Index n, const float* x, const float* dy, float* dx) const {
    cpu::gelu_backward(n, x, dy, dx, threads_);
}

void CpuDevice::to_heads(const HeadsShape& s, const float* rows, float* heads) const {
    for_each_head_row(s, threads_,
                      [&](Index r, Index h) { std::copy_n(rows + r, s.of.head_dim, heads + h); });
}
void CpuDevice::to_rows(const HeadsShape& s, const float* heads, float* rows) const {
    for_each_head_row(s, threads_,
                      [&](Index r, Index h) { std::copy_n(heads + h, s.of.head_dim, rows + r); });
}
void CpuDevice::attention_forward(const AttentionShape& s, const AttentionTensors& t) const {
    cpu::attention_forward(attention(s), t.q, t.k, t.v, t.out, t.lse, threads_);
}
void CpuDevice::attention_backward(const AttentionShape& s, const AttentionTensors& t,
                                   const float* d_out, float* dq, float* dk, float* dv) const {
    cpu::attention_backward(attention(s), t.q, t.k, t.v, t.out, t.lse, d_out, dq, dk, dv, threads_);
}

void CpuDevice::gather_rows(const LogitsShape& s, Index hidden, std::span<const std::int32_t> ids,
                            const float* table, float* out) const {
    for (Index t = 0; t < s.tokens; ++t) {
        const Index row = place_of(s, ids[at(t)]);
        if (row >= 0)
            std::copy_n(table + row * hidden, hidden, out + t * hidden);
        else
            std::fill_n(out + t * hidden, hidden, 0.0F);
    }
}
void CpuDevice::scatter_rows(const LogitsShape& s, Index hidden, std::span<const std::int32_t> ids,
                             const float* d_out, float* d_table) const {
    spread(hidden, s.tokens, threads_, [&](Index begin, Index end) {
        for (Index t = 0; t < s.tokens; ++t)
            if (const Index row = place_of(s, ids[at(t)]); row >= 0)
                add_to(end - begin, d_out + t * hidden + begin, d_table + row * hidden + begin);
    });
}

void CpuDevice::top_and_target(const LogitsShape& s, const float* logits,
                               std::span<const std::int32_t> labels, float* top,
                               float* target) const {
    spread(s.tokens, s.width, threads_, [&](Index begin, Index end) {
        for (Index t = begin; t < end; ++t) {
            const float* row = logits + t * s.width;
            top[t] = largest(s.width, row);
            const Index label = place_of(s, labels[at(t)]);
            target[t] = label >= 0 ? row[label] : 0.0F;
        }
    });
}
void CpuDevice::sum_exponentials(const LogitsShape& s, float* logits, const float* top,
                                 float* sums) const {
    spread(s.tokens, s.width, threads_, [&](Index begin, Index end) {
        for (Index t = begin; t < end; ++t)
            sums[t] = exponentials(s.width, top[t], logits + t * s.width);
    });
}
void CpuDevice::logits_gradient(const LogitsShape& s, float* logits,
                                std::span<const std::int32_t> labels, const float*,
                                const float* sums, float factor) const {
    spread(s.tokens, s.width, threads_, [&](Index begin, Index end) {
        for (Index t = begin; t < end; ++t) {
            float* const row = logits + t * s.width;
            multiply_by(s.width, factor / sums[t], row);
            if (const Index label = place_of(s, labels[at(t)]); label >= 0) row[label] -= factor;
        }
    });
}

void CpuDevice::add_losses(Index tokens, const float* top, const float* target, const float* sums,
                           Sum& sum) const {
    double loss = 0;
    for (Index t = 0; t < tokens; ++t)
        loss += std::log(static_cast<double>(sums[t])) + static_cast<double>(top[t] - target[t]);
    sum.value += loss;
}
void CpuDevice::add_squares(Index n, const float* x, Sum& sum) const {
    std::vector<double> parts(at(threads_));
    cpu::parallel_for(n, threads_for(n, threads_), [&](int part, Index begin, Index end) {
        parts[at(part)] = squares(end - begin, x + begin);
    });
    for (const double part : parts) sum.value += part;
}
void CpuDevice::scale(Index n, float factor, float* x) const {
    spread(n, 1, threads_,
           [&](Index begin, Index end) { multiply_by(end - begin, factor, x + begin); });
}
void CpuDevice::fill_zero(std::span<float> x) const {
    spread(static_cast<Index>(x.size()), 1, threads_,
           [&](Index begin, Index end) { std::fill(x.data() + begin, x.data() + end, 0.0F); });
}
void CpuDevice::adamw(const AdamW& adam, Index n, float* masters, const float* gradient,
                      float* first, float* second, float*) const {
    cpu::adamw(adam, n, masters, gradient, first, second, threads_);
}
void CpuDevice::upload(std::span<const float> host, float* to) {
    std::copy(host.begin(), host.end(), to);
}
void CpuDevice::download(const float* from, std::span<float> host) {
    std::copy_n(from, host.size(), host.begin());
}

}  // namespace arena::train
