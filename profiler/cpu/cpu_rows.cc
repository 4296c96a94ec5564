// SPDX-License-Identifier: GPL-2.0-or-later
// Normalisation, activations, residual sums, embedding, cross-entropy and AdamW on the host: one
// pass over memory each where the mathematics allows, rows or elements split over threads.
#include <algorithm>
#include <cmath>

#include "profiler/cpu/cpu_kernels.h"
#include "profiler/cpu/cpu_math.h"

namespace arena::cpu {
namespace {

// ---- norm ---------------------------------------------------------------------------------------

ARENA_CLONES void norm_rows(const Norm& n, Index begin, Index end, const NormTensors& t) {
    const auto width = static_cast<float>(n.cols);
    const float *gamma = t.gamma, *beta = t.beta;
    for (Index r = begin; r < end; ++r) {
        const float* row = t.x + r * n.cols;
        float* out = t.y + r * n.cols;
        float mean = 0, square = 0;
        if (!n.rms) {
#pragma omp simd reduction(+ : mean)
            for (Index i = 0; i < n.cols; ++i) mean += row[i];
            mean /= width;
        }
#pragma omp simd reduction(+ : square)
        for (Index i = 0; i < n.cols; ++i) square += (row[i] - mean) * (row[i] - mean);
        const float inverse = 1.0F / std::sqrt(square / width + n.epsilon);
        if (n.rms) {
#pragma omp simd
            for (Index i = 0; i < n.cols; ++i) out[i] = row[i] * inverse * gamma[i];
        } else {
#pragma omp simd
            for (Index i = 0; i < n.cols; ++i)
                out[i] = (row[i] - mean) * inverse * gamma[i] + beta[i];
        }
        t.saved[2 * r] = mean;
        t.saved[2 * r + 1] = inverse;
    }
}

/// to.gamma and to.beta are this thread's sums, zeroed here.
ARENA_CLONES void norm_gradient_rows(const Norm& n, Index begin, Index end, const NormInputs& in,
                                     const float* dy, const NormGradients& to) {
    const auto width = static_cast<float>(n.cols);
    const float* gamma = in.gamma;
    float *dgamma = to.gamma, *dbeta = to.beta;
    std::fill(dgamma, dgamma + n.cols, 0.0F);
    std::fill(dbeta, dbeta + n.cols, 0.0F);
    for (Index r = begin; r < end; ++r) {
        const float* xr = in.x + r * n.cols;
        const float* gr = dy + r * n.cols;
        float* out = to.x + r * n.cols;
        const float mean = in.saved[2 * r], inverse = in.saved[2 * r + 1];
        float sum = 0, dot = 0;
#pragma omp simd reduction(+ : sum, dot)
        for (Index i = 0; i < n.cols; ++i) {
            const float hat = (xr[i] - mean) * inverse, g = gr[i] * gamma[i];
            sum += g;
            dot += g * hat;
            dgamma[i] += gr[i] * hat;
            dbeta[i] += gr[i];
        }
        sum = n.rms ? 0 : sum / width;
        dot /= width;
#pragma omp simd
        for (Index i = 0; i < n.cols; ++i) {
            const float hat = (xr[i] - mean) * inverse;
            out[i] = inverse * (gr[i] * gamma[i] - sum - hat * dot);
        }
    }
}

/// out[i] = sum over parts of partial[part, i].
void sum_parts(const float* partial, Index parts, Index stride, Index cols, float* out) {
    std::copy(partial, partial + cols, out);
    for (Index p = 1; p < parts; ++p)
        for (Index i = 0; i < cols; ++i) out[i] += partial[p * stride + i];
}

int parts_of(Index n, int threads) {
    return static_cast<int>(std::min<Index>(threads, std::max<Index>(n, 1)));
}

// ---- element-wise -------------------------------------------------------------------------------

constexpr float gelu_a =
    1.5957691216057308F;  ///< 2 sqrt(2 / pi): gelu(x) = x sigmoid(a (x + b x^3))
constexpr float gelu_b = 0.044715F;

ARENA_CLONES void gelu_part(Index begin, Index end, const float* x, float* y) {
#pragma omp simd
    for (Index i = begin; i < end; ++i)
        y[i] = x[i] * sigmoid(gelu_a * (x[i] + gelu_b * x[i] * x[i] * x[i]));
}

ARENA_CLONES void gelu_gradient_part(Index begin, Index end, const float* x, const float* dy,
                                     float* dx) {
#pragma omp simd
    for (Index i = begin; i < end; ++i) {
        const float v = x[i], s = sigmoid(gelu_a * (v + gelu_b * v * v * v));
        dx[i] = dy[i] * (s + v * s * (1 - s) * gelu_a * (1 + 3 * gelu_b * v * v));
    }
}

ARENA_CLONES void swiglu_part(Index begin, Index end, const float* gate, const float* up,
                              float* y) {
#pragma omp simd
    for (Index i = begin; i < end; ++i) y[i] = gate[i] * sigmoid(gate[i]) * up[i];
}

ARENA_CLONES void swiglu_gradient_part(Index begin, Index end, const float* gate, const float* up,
                                       const float* dy, float* d_gate, float* d_up) {
#pragma omp simd
    for (Index i = begin; i < end; ++i) {
        const float g = gate[i], s = sigmoid(g);
        d_up[i] = dy[i] * g * s;
        d_gate[i] = dy[i] * up[i] * s * (1 + g * (1 - s));
    }
}

ARENA_CLONES void bias_residual_part(Index begin, Index end, Index cols, const float* x,
                                     const float* bias, const float* residual, float* y) {
    for (Index r = begin; r < end; ++r) {
        const Index at = r * cols;
#pragma omp simd
        for (Index i = 0; i < cols; ++i) y[at + i] = x[at + i] + bias[i] + residual[at + i];
    }
}

ARENA_CLONES void bias_gradient_part(Index begin, Index end, Index cols, const float* dy, float* dx,
                                     float* sums) {
    std::fill(sums, sums + cols, 0.0F);
    for (Index r = begin; r < end; ++r) {
        const Index at = r * cols;
#pragma omp simd
        for (Index i = 0; i < cols; ++i) {
            dx[at + i] = dy[at + i];
            sums[i] += dy[at + i];
        }
    }
}

ARENA_CLONES void add_part(Index begin, Index end, const float* a, const float* b, float* y) {
#pragma omp simd
    for (Index i = begin; i < end; ++i) y[i] = a[i] + b[i];
}

ARENA_CLONES void accumulate_row(float* to, const float* from, Index n) {
#pragma omp simd
    for (Index i = 0; i < n; ++i) to[i] += from[i];
}

// ---- cross-entropy ------------------------------------------------------------------------------

ARENA_CLONES void loss_rows(Index begin, Index end, Index cols, const float* x,
                            const std::int32_t* label, float* loss, float* lse) {
    for (Index r = begin; r < end; ++r) {
        const float* row = x + r * cols;
        float top = row[0], sum = 0;
#pragma omp simd reduction(max : top)
        for (Index i = 0; i < cols; ++i) top = std::max(top, row[i]);
#pragma omp simd reduction(+ : sum)
        for (Index i = 0; i < cols; ++i) sum += fast_exp(row[i] - top);
        lse[r] = top + std::log(sum);
        loss[r] = lse[r] - row[label[r]];
    }
}

ARENA_CLONES void loss_gradient_rows(Index begin, Index end, Index cols, const LossInputs& in,
                                     float scale, float* dx) {
    for (Index r = begin; r < end; ++r) {
        const float* row = in.x + r * cols;
        float* out = dx + r * cols;
        const float shift = in.lse[r];
#pragma omp simd
        for (Index i = 0; i < cols; ++i) out[i] = fast_exp(row[i] - shift) * scale;
        out[in.label[r]] -= scale;
    }
}

// ---- optimizer ----------------------------------------------------------------------------------

struct AdamFactors {
    float beta1, beta2, keep, step, correct, epsilon;
};

ARENA_CLONES void adamw_part(const AdamFactors f, Index begin, Index end, float* p, const float* g,
                             float* m, float* v) {
#pragma omp simd
    for (Index i = begin; i < end; ++i) {
        const float mi = f.beta1 * m[i] + (1 - f.beta1) * g[i];
        const float vi = f.beta2 * v[i] + (1 - f.beta2) * g[i] * g[i];
        m[i] = mi;
        v[i] = vi;
        p[i] = p[i] * f.keep - f.step * mi / (std::sqrt(vi) * f.correct + f.epsilon);
    }
}

}  // namespace

void norm_forward(const Norm& n, const NormTensors& tensors, int threads) {
    parallel_for(n.rows, threads, [&](int, Index b, Index e) { norm_rows(n, b, e, tensors); });
}

void norm_backward(const Norm& n, const NormInputs& in, const float* dy, const NormGradients& to,
                   float* partial, int threads) {
    parallel_for(n.rows, threads, [&](int t, Index b, Index e) {
        float* mine = partial + 2 * t * n.cols;
        norm_gradient_rows(n, b, e, in, dy, {.x = to.x, .gamma = mine, .beta = mine + n.cols});
    });
    const int parts = parts_of(n.rows, threads);
    sum_parts(partial, parts, 2 * n.cols, n.cols, to.gamma);
    if (!n.rms) sum_parts(partial + n.cols, parts, 2 * n.cols, n.cols, to.beta);
}

void gelu_forward(Index n, const float* x, float* y, int threads) {
    parallel_for(n, threads, [&](int, Index b, Index e) { gelu_part(b, e, x, y); });
}
void gelu_backward(Index n, const float* x, const float* dy, float* dx, int threads) {
    parallel_for(n, threads, [&](int, Index b, Index e) { gelu_gradient_part(b, e, x, dy, dx); });
}
void swiglu_forward(Index n, const float* gate, const float* up, float* y, int threads) {
    parallel_for(n, threads, [&](int, Index b, Index e) { swiglu_part(b, e, gate, up, y); });
}
void swiglu_backward(Index n, const float* gate, const float* up, const float* dy, float* d_gate,
                     float* d_up, int threads) {
    parallel_for(n, threads, [&](int, Index b, Index e) {
        swiglu_gradient_part(b, e, gate, up, dy, d_gate, d_up);
    });
}
void bias_residual_forward(Index rows, Index cols, const float* x, const float* bias,
                           const float* residual, float* y, int threads) {
    parallel_for(rows, threads, [&](int, Index b, Index e) {
        bias_residual_part(b, e, cols, x, bias, residual, y);
    });
}
void bias_residual_backward(Index rows, Index cols, const float* dy, float* dx, float* d_bias,
                            float* partial, int threads) {
    parallel_for(rows, threads, [&](int t, Index b, Index e) {
        bias_gradient_part(b, e, cols, dy, dx, partial + t * cols);
    });
    sum_parts(partial, parts_of(rows, threads), cols, cols, d_bias);
}
void add(Index n, const float* a, const float* b, float* y, int threads) {
    parallel_for(n, threads, [&](int, Index begin, Index end) { add_part(begin, end, a, b, y); });
}

void embedding_forward(Index tokens, Index hidden, const std::int32_t* ids, const float* table,
                       float* out, int threads) {
    parallel_for(tokens, threads, [&](int, Index begin, Index end) {
        for (Index t = begin; t < end; ++t) {
            const float* row = table + static_cast<Index>(ids[t]) * hidden;
            std::copy(row, row + hidden, out + t * hidden);
        }
    });
}

void embedding_backward(Index tokens, Index hidden, Index vocab, const std::int32_t* ids,
                        const float* d_out, float* d_table, int threads) {
    parallel_for(vocab, threads, [&](int, Index begin, Index end) {
        for (Index t = 0; t < tokens; ++t)
            if (ids[t] >= begin && ids[t] < end)
                accumulate_row(d_table + static_cast<Index>(ids[t]) * hidden, d_out + t * hidden,
                               hidden);
    });
}

void cross_entropy_forward(Index rows, Index cols, const float* x, const std::int32_t* label,
                           float* loss, float* lse, int threads) {
    parallel_for(rows, threads,
                 [&](int, Index b, Index e) { loss_rows(b, e, cols, x, label, loss, lse); });
}
void cross_entropy_backward(Index rows, Index cols, const LossInputs& in, float scale, float* dx,
                            int threads) {
    parallel_for(rows, threads,
                 [&](int, Index b, Index e) { loss_gradient_rows(b, e, cols, in, scale, dx); });
}

void adamw(const AdamW& a, Index n, float* p, const float* g, float* m, float* v, int threads) {
    const double step = static_cast<double>(a.step);
    const double c1 = 1 - std::pow(static_cast<double>(a.beta1), step);
    const double c2 = 1 - std::pow(static_cast<double>(a.beta2), step);
    const AdamFactors f{.beta1 = a.beta1,
                        .beta2 = a.beta2,
                        .keep = 1 - a.rate * a.decay,
                        .step = static_cast<float>(a.rate / c1),
                        .correct = static_cast<float>(1 / std::sqrt(c2)),
                        .epsilon = a.epsilon};
    parallel_for(n, threads, [&](int, Index b, Index e) { adamw_part(f, b, e, p, g, m, v); });
}

}  // namespace arena::cpu
