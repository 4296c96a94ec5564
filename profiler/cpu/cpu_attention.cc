// SPDX-License-Identifier: GPL-2.0-or-later
// Attention forward and backward on the host: per head and block of query rows a GEMM, a softmax
// and a GEMM, so that scores stay in cache. Causal blocks stop at the diagonal, which halves the
// work; under a window they start there, too. Backward recomputes the probabilities (five GEMMs per
// block against two forward).
#include <algorithm>
#include <cmath>
#include <vector>

#include "profiler/cpu/cpu_kernels.h"
#include "profiler/cpu/cpu_math.h"

namespace arena::cpu {
namespace {

constexpr Index block_rows = 64;

/// Which of the `width` keys of a block a row sees: those before itself, the last `window` of them.
/// `first_row` counts from the block's first key.
struct Sight {
    Index width, first_row;
    bool causal;
    Index window;
    ARENA_INLINE Index begin(Index row) const {
        return window > 0 ? std::max<Index>(0, first_row + row + 1 - window) : 0;
    }
    ARENA_INLINE Index end(Index row) const {
        return causal ? std::min(width, first_row + row + 1) : width;
    }
};

/// scores -> probabilities in place, row by row; returns nothing, writes lse. `scale` multiplies
/// scores.
ARENA_CLONES void softmax_block(float* s, Index rows, const Sight& sight, float scale, float* lse) {
    for (Index r = 0; r < rows; ++r) {
        float* row = s + r * sight.width;
        const Index begin = sight.begin(r), end = sight.end(r);
        float top = row[begin];
#pragma omp simd reduction(max : top)
        for (Index i = begin; i < end; ++i) top = std::max(top, row[i]);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (Index i = begin; i < end; ++i) {
            row[i] = fast_exp((row[i] - top) * scale);
            sum += row[i];
        }
        const float inverse = 1.0F / sum;
#pragma omp simd
        for (Index i = begin; i < end; ++i) row[i] *= inverse;
        std::fill(row, row + begin, 0.0F);
        std::fill(row + end, row + sight.width, 0.0F);
        lse[r] = top * scale + std::log(sum);
    }
}

/// scores -> probabilities from a known lse.
ARENA_CLONES void probabilities_block(float* s, Index rows, const Sight& sight, float scale,
                                      const float* lse) {
    for (Index r = 0; r < rows; ++r) {
        float* row = s + r * sight.width;
        const Index begin = sight.begin(r), end = sight.end(r);
        const float shift = lse[r];
#pragma omp simd
        for (Index i = begin; i < end; ++i) row[i] = fast_exp(row[i] * scale - shift);
        std::fill(row, row + begin, 0.0F);
        std::fill(row + end, row + sight.width, 0.0F);
    }
}

struct Block {
    Index head, first, rows;  ///< query rows [first, first + rows)
    Index low, width;         ///< keys [low, low + width)
};

/// dS = P * (dP - delta) * scale, delta[r] = sum_j dO[r, j] O[r, j]; dP is overwritten by dS.
ARENA_CLONES void score_gradient(const Block& b, Index dim, const float* p, float* dp,
                                 const float* o, const float* d_o, float scale) {
    const Index width = b.width;
    for (Index r = 0; r < b.rows; ++r) {
        float delta = 0;
#pragma omp simd reduction(+ : delta)
        for (Index j = 0; j < dim; ++j) delta += o[r * dim + j] * d_o[r * dim + j];
        const float* prow = p + r * width;
        float* drow = dp + r * width;
#pragma omp simd
        for (Index i = 0; i < width; ++i) drow[i] = prow[i] * (drow[i] - delta) * scale;
    }
}

Block block_at(const Attention& a, Index head, Index first) {
    const Index rows = std::min(block_rows, a.seq - first);
    const Index low = a.window > 0 ? std::max<Index>(0, first + 1 - a.window) : 0;
    return {.head = head,
            .first = first,
            .rows = rows,
            .low = low,
            .width = (a.causal ? first + rows : a.seq) - low};
}

Sight sight_of(const Attention& a, const Block& b) {
    return {b.width, b.first - b.low, a.causal, a.window};
}

Index value_dim(const Attention& a) { return a.value_dim > 0 ? a.value_dim : a.head_dim; }

}  // namespace

void attention_forward(const Attention& a, const float* q, const float* k, const float* v, float* o,
                       float* lse, int threads) {
    const Index d = a.head_dim, e = value_dim(a), group = a.heads / a.kv_heads;
    const float scale = 1.0F / std::sqrt(static_cast<float>(d));
    const Index blocks = (a.seq + block_rows - 1) / block_rows;
    parallel_gemms(a.heads * blocks, threads, [&](int, Index begin, Index end) {
        std::vector<float> s(static_cast<std::size_t>(block_rows * a.seq));
        for (Index i = begin; i < end; ++i) {
            const Block b = block_at(a, i / blocks, i % blocks * block_rows);
            const Index key = b.head / group * a.seq + b.low, row = b.head * a.seq + b.first;
            gemm({Layout::nt, b.rows, b.width, d}, {q + row * d, d}, {k + key * d, d}, 0,
                 {s.data(), b.width});
            softmax_block(s.data(), b.rows, sight_of(a, b), scale, lse + row);
            gemm({Layout::nn, b.rows, e, b.width}, {s.data(), b.width}, {v + key * e, e}, 0,
                 {o + row * e, e});
        }
    });
}

void attention_backward(const Attention& a, const AttentionTensors& t, const float* d_o,
                        const AttentionGradients& to, int threads) {
    const Index d = a.head_dim, e = value_dim(a), group = a.heads / a.kv_heads;
    const float scale = 1.0F / std::sqrt(static_cast<float>(d));
    const auto one_block = [&](const Block& b, float* p, float* dp) {
        const Index key = b.head / group * a.seq + b.low, row = b.head * a.seq + b.first,
                    w = b.width;
        const Matrix<const float> q{t.q + row * d, d}, k{t.k + key * d, d}, v{t.v + key * e, e},
            out{d_o + row * e, e};
        gemm({Layout::nt, b.rows, w, d}, q, k, 0, {p, w});
        probabilities_block(p, b.rows, sight_of(a, b), scale, t.lse + row);
        gemm({Layout::tn, w, e, b.rows}, {p, w}, out, 1, {to.v + key * e, e});
        gemm({Layout::nt, b.rows, w, e}, out, v, 0, {dp, w});
        score_gradient(b, e, p, dp, t.o + row * e, out.data, scale);
        gemm({Layout::nn, b.rows, d, w}, {dp, w}, k, 0, {to.q + row * d, d});
        gemm({Layout::tn, w, d, b.rows}, {dp, w}, q, 1, {to.k + key * d, d});
    };
    parallel_gemms(a.kv_heads, threads, [&](int, Index begin, Index end) {
        std::vector<float> p(static_cast<std::size_t>(block_rows * a.seq)), dp(p.size());
        std::fill(to.k + begin * a.seq * d, to.k + end * a.seq * d, 0.0F);
        std::fill(to.v + begin * a.seq * e, to.v + end * a.seq * e, 0.0F);
        for (Index head = begin * group; head < end * group; ++head)
            for (Index first = 0; first < a.seq; first += block_rows)
                one_block(block_at(a, head, first), p.data(), dp.data());
    });
}

}  // namespace arena::cpu
