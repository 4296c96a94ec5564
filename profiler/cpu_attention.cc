// SPDX-License-Identifier: GPL-2.0-or-later
// Attention forward and backward on the host: per head and block of query rows a GEMM, a softmax
// and a GEMM, so that scores stay in cache. Causal blocks stop at the diagonal, which halves the
// work. Backward recomputes the probabilities (five GEMMs per block against two forward).
#include <algorithm>
#include <cmath>
#include <vector>

#include "profiler/cpu_kernels.h"
#include "profiler/cpu_math.h"

namespace arena::cpu {
namespace {

constexpr Index block_rows = 64;

/// scores -> probabilities in place, row by row; returns nothing, writes lse. `scale` multiplies
/// scores.
ARENA_CLONES void softmax_block(float* s, Index rows, Index width, Index first_row, float scale,
                                bool causal, float* lse) {
    for (Index r = 0; r < rows; ++r) {
        float* row = s + r * width;
        const Index valid = causal ? std::min(width, first_row + r + 1) : width;
        float top = row[0];
#pragma omp simd reduction(max : top)
        for (Index i = 0; i < valid; ++i) top = std::max(top, row[i]);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (Index i = 0; i < valid; ++i) {
            row[i] = fast_exp((row[i] - top) * scale);
            sum += row[i];
        }
        const float inverse = 1.0F / sum;
#pragma omp simd
        for (Index i = 0; i < valid; ++i) row[i] *= inverse;
        std::fill(row + valid, row + width, 0.0F);
        lse[r] = top * scale + std::log(sum);
    }
}

/// scores -> probabilities from a known lse.
ARENA_CLONES void probabilities_block(float* s, Index rows, Index width, Index first_row,
                                      float scale, bool causal, const float* lse) {
    for (Index r = 0; r < rows; ++r) {
        float* row = s + r * width;
        const Index valid = causal ? std::min(width, first_row + r + 1) : width;
        const float shift = lse[r];
#pragma omp simd
        for (Index i = 0; i < valid; ++i) row[i] = fast_exp(row[i] * scale - shift);
        std::fill(row + valid, row + width, 0.0F);
    }
}

/// dS = P * (dP - delta) * scale, delta[r] = sum_j dO[r, j] O[r, j]; dP is overwritten by dS.
ARENA_CLONES void score_gradient(const float* p, float* dp, Index rows, Index width, Index dim,
                                 const float* o, const float* d_o, float scale) {
    for (Index r = 0; r < rows; ++r) {
        float delta = 0;
#pragma omp simd reduction(+ : delta)
        for (Index j = 0; j < dim; ++j) delta += o[r * dim + j] * d_o[r * dim + j];
        const float* prow = p + r * width;
        float* drow = dp + r * width;
#pragma omp simd
        for (Index i = 0; i < width; ++i) drow[i] = prow[i] * (drow[i] - delta) * scale;
    }
}

struct Block {
    Index head, first, rows, width;  ///< query rows [first, first + rows), keys [0, width)
};

Block block_at(const Attention& a, Index head, Index first) {
    const Index rows = std::min(block_rows, a.seq - first);
    return {head, first, rows, a.causal ? first + rows : a.seq};
}

}  // namespace

void attention_forward(const Attention& a, const float* q, const float* k, const float* v, float* o,
                       float* lse, int threads) {
    const Index d = a.head_dim, plane = a.seq * d, group = a.heads / a.kv_heads;
    const float scale = 1.0F / std::sqrt(static_cast<float>(d));
    const Index blocks = (a.seq + block_rows - 1) / block_rows;
    set_gemm_threads(1);
    parallel_for(a.heads * blocks, threads, [&](int, Index begin, Index end) {
        std::vector<float> s(static_cast<std::size_t>(block_rows * a.seq));
        for (Index i = begin; i < end; ++i) {
            const Block b = block_at(a, i / blocks, i % blocks * block_rows);
            const Index kv = b.head / group * plane, at = b.head * plane + b.first * d;
            float* l = lse + b.head * a.seq + b.first;
            gemm({Layout::nt, b.rows, b.width, d}, q + at, d, k + kv, d, 0, s.data(), b.width);
            softmax_block(s.data(), b.rows, b.width, b.first, scale, a.causal, l);
            gemm({Layout::nn, b.rows, d, b.width}, s.data(), b.width, v + kv, d, 0, o + at, d);
        }
    });
    set_gemm_threads(threads);
}

void attention_backward(const Attention& a, const float* q, const float* k, const float* v,
                        const float* o, const float* lse, const float* d_o, float* dq, float* dk,
                        float* dv, int threads) {
    const Index d = a.head_dim, plane = a.seq * d, group = a.heads / a.kv_heads;
    const float scale = 1.0F / std::sqrt(static_cast<float>(d));
    const auto one_block = [&](const Block& b, float* p, float* dp) {
        const Index kv = b.head / group * plane, at = b.head * plane + b.first * d, w = b.width;
        gemm({Layout::nt, b.rows, w, d}, q + at, d, k + kv, d, 0, p, w);
        probabilities_block(p, b.rows, w, b.first, scale, a.causal, lse + b.head * a.seq + b.first);
        gemm({Layout::tn, w, d, b.rows}, p, w, d_o + at, d, 1, dv + kv, d);
        gemm({Layout::nt, b.rows, w, d}, d_o + at, d, v + kv, d, 0, dp, w);
        score_gradient(p, dp, b.rows, w, d, o + at, d_o + at, scale);
        gemm({Layout::nn, b.rows, d, w}, dp, w, k + kv, d, 0, dq + at, d);
        gemm({Layout::tn, w, d, b.rows}, dp, w, q + at, d, 1, dk + kv, d);
    };
    set_gemm_threads(1);
    parallel_for(a.kv_heads, threads, [&](int, Index begin, Index end) {
        std::vector<float> p(static_cast<std::size_t>(block_rows * a.seq)), dp(p.size());
        std::fill(dk + begin * plane, dk + end * plane, 0.0F);
        std::fill(dv + begin * plane, dv + end * plane, 0.0F);
        for (Index head = begin * group; head < end * group; ++head)
            for (Index first = 0; first < a.seq; first += block_rows)
                one_block(block_at(a, head, first), p.data(), dp.data());
    });
    set_gemm_threads(threads);
}

}  // namespace arena::cpu
