// SPDX-License-Identifier: GPL-2.0-or-later
// What one element, row or token becomes in the kernels of a training step, apart from who computes
// it: kernels call these on the GPU, and a unit test calls them on the host over all indices,
// against the CPU back-end. Plain C++ but for the two words that nvcc wants.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define ARENA_BOTH __host__ __device__
#else
#define ARENA_BOTH
#endif

namespace arena::cuda {

using Index = std::int64_t;

/// One AdamW step with the bias corrections worked in.
struct AdamFactors {
    float beta1, beta2, keep, step, correct, epsilon;
};
inline AdamFactors adam_factors(double rate, double beta1, double beta2, double epsilon,
                                double decay, Index step) {
    const double first = 1 - std::pow(beta1, static_cast<double>(step)),
                 second = 1 - std::pow(beta2, static_cast<double>(step));
    return {.beta1 = static_cast<float>(beta1),
            .beta2 = static_cast<float>(beta2),
            .keep = static_cast<float>(1 - rate * decay),
            .step = static_cast<float>(rate / first),
            .correct = static_cast<float>(1 / std::sqrt(second)),
            .epsilon = static_cast<float>(epsilon)};
}
/// The new parameter; m and v are updated.
ARENA_BOTH inline float adamw_element(const AdamFactors& f, float p, float g, float& m, float& v) {
    m = f.beta1 * m + (1 - f.beta1) * g;
    v = f.beta2 * v + (1 - f.beta2) * g * g;
    return p * f.keep - f.step * m / (sqrtf(v) * f.correct + f.epsilon);
}

/// Rows [samples, seq, parts, heads, dim], of which one part is taken, as heads [samples, heads,
/// seq, dim]. dim counts whatever is moved at once.
struct HeadsLayout {
    Index samples, seq, heads, dim, part, parts;
    ARENA_BOTH Index size() const { return samples * heads * seq * dim; }
};
/// Where in the rows lies element i of the heads.
ARENA_BOTH inline Index row_of_head(const HeadsLayout& l, Index i) {
    const Index d = i % l.dim, t = i / l.dim % l.seq, h = i / l.dim / l.seq % l.heads,
                b = i / l.dim / l.seq / l.heads;
    return (((b * l.seq + t) * l.parts + l.part) * l.heads + h) * l.dim + d;
}

/// The rows [first, first + width) of a vocabulary.
struct VocabularyShard {
    Index first, width;
};
/// The row of an id in the shard, -1 where it is another's.
ARENA_BOTH inline Index shard_row(const VocabularyShard& s, std::int32_t id) {
    const Index row = static_cast<Index>(id) - s.first;
    return row >= 0 && row < s.width ? row : -1;
}

/// Cross-entropy of a token, from the largest logit, the label's, and the sum of exp(logit - top).
ARENA_BOTH inline double token_loss(float top, float target, float sum) {
    return log(static_cast<double>(sum)) + static_cast<double>(top - target);
}
/// scale * (softmax - label) of one logit; `sum` and `top` over the whole vocabulary.
ARENA_BOTH inline float logit_gradient(float logit, float top, float sum, bool is_label,
                                       float scale) {
    return (expf(logit - top) / sum - (is_label ? 1.0f : 0.0f)) * scale;
}

}  // namespace arena::cuda
