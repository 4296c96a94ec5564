// SPDX-License-Identifier: GPL-2.0-or-later
// What stands between convolutions: batch norm over the rows of a channels-last image, and ReLU. A
// column's statistics need a pass of their own; threads sum their rows, then one adds the sums up.
#include <algorithm>
#include <cmath>

#include "profiler/cpu/cpu_kernels.h"
#include "profiler/cpu/cpu_math.h"

namespace arena::cpu {
namespace {

/// sums[0, c) += x, sums[c, 2c) += x * x, from zero.
ARENA_CLONES void sum_rows(Index begin, Index end, Index cols, const float* x, float* sums) {
    std::fill(sums, sums + 2 * cols, 0.0F);
    for (Index r = begin; r < end; ++r) {
        const float* row = x + r * cols;
#pragma omp simd
        for (Index i = 0; i < cols; ++i) {
            sums[i] += row[i];
            sums[cols + i] += row[i] * row[i];
        }
    }
}

/// sums[0, c) += dy, sums[c, 2c) += dy * xhat, from zero.
ARENA_CLONES void sum_gradients(Index begin, Index end, Index cols, const float* x, const float* dy,
                                const float* saved, float* sums) {
    std::fill(sums, sums + 2 * cols, 0.0F);
    for (Index r = begin; r < end; ++r) {
        const float* row = x + r * cols;
        const float* gradient = dy + r * cols;
#pragma omp simd
        for (Index i = 0; i < cols; ++i) {
            sums[i] += gradient[i];
            sums[cols + i] += gradient[i] * (row[i] - saved[i]) * saved[cols + i];
        }
    }
}

/// Adds the sums of all threads into the first's.
void gather(float* partial, int threads, Index cols) {
    for (int t = 1; t < threads; ++t)
        for (Index i = 0; i < 2 * cols; ++i) partial[i] += partial[t * 2 * cols + i];
}

ARENA_CLONES void scale_rows(Index begin, Index end, Index cols, const NormTensors& t) {
    const float *x = t.x, *gamma = t.gamma, *beta = t.beta, *saved = t.saved;
    float* y = t.y;
    for (Index r = begin; r < end; ++r)
#pragma omp simd
        for (Index i = 0; i < cols; ++i)
            y[r * cols + i] = (x[r * cols + i] - saved[i]) * saved[cols + i] * gamma[i] + beta[i];
}

/// dx = gamma / deviation * (dy - mean(dy) - xhat * mean(dy * xhat)); the sums of both are beta's
/// gradient and gamma's.
ARENA_CLONES void gradient_rows(Index begin, Index end, Index rows, Index cols,
                                const NormInputs& in, const float* dy, const NormGradients& to) {
    const float *x = in.x, *gamma = in.gamma, *saved = in.saved;
    float* dx = to.x;
    const float *sums = to.beta, *dots = to.gamma;
    const float share = 1.0F / static_cast<float>(rows);
    for (Index r = begin; r < end; ++r)
#pragma omp simd
        for (Index i = 0; i < cols; ++i) {
            const float hat = (x[r * cols + i] - saved[i]) * saved[cols + i];
            dx[r * cols + i] =
                gamma[i] * saved[cols + i] * (dy[r * cols + i] - share * (sums[i] + hat * dots[i]));
        }
}

}  // namespace

void batch_norm_forward(Index rows, Index cols, const NormTensors& t, float* partial, int threads) {
    std::fill(partial, partial + 2 * cols * threads, 0.0F);
    parallel_for(rows, threads, [&](int thread, Index begin, Index end) {
        sum_rows(begin, end, cols, t.x, partial + thread * 2 * cols);
    });
    gather(partial, threads, cols);
    for (Index i = 0; i < cols; ++i) {
        const double mean = static_cast<double>(partial[i]) / static_cast<double>(rows);
        const double square = static_cast<double>(partial[cols + i]) / static_cast<double>(rows);
        t.saved[i] = static_cast<float>(mean);
        t.saved[cols + i] =
            static_cast<float>(1 / std::sqrt(std::max(0.0, square - mean * mean) + 1e-5));
    }
    parallel_for(rows, threads,
                 [&](int, Index begin, Index end) { scale_rows(begin, end, cols, t); });
}

void batch_norm_backward(Index rows, Index cols, const NormInputs& in, const float* dy,
                         const NormGradients& to, float* partial, int threads) {
    std::fill(partial, partial + 2 * cols * threads, 0.0F);
    parallel_for(rows, threads, [&](int thread, Index begin, Index end) {
        sum_gradients(begin, end, cols, in.x, dy, in.saved, partial + thread * 2 * cols);
    });
    gather(partial, threads, cols);
    std::copy(partial, partial + cols, to.beta);
    std::copy(partial + cols, partial + 2 * cols, to.gamma);
    parallel_for(rows, threads, [&](int, Index begin, Index end) {
        gradient_rows(begin, end, rows, cols, in, dy, to);
    });
}

void relu_forward(Index n, const float* x, float* y, int threads) {
    parallel_for(n, threads, [&](int, Index begin, Index end) {
#pragma omp simd
        for (Index i = begin; i < end; ++i) y[i] = x[i] > 0 ? x[i] : 0;
    });
}

void relu_backward(Index n, const float* x, const float* dy, float* dx, int threads) {
    parallel_for(n, threads, [&](int, Index begin, Index end) {
#pragma omp simd
        for (Index i = begin; i < end; ++i) dx[i] = x[i] > 0 ? dy[i] : 0;
    });
}

}  // namespace arena::cpu
