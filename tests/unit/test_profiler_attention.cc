// SPDX-License-Identifier: GPL-2.0-or-later
// Attention on the CPU with sliding windows and with values of a size of their own (latent
// attention), forward against a naive fp64 reference and backward against its differences, on more
// rows than a block.
#include <cmath>
#include <vector>

#include "float_arrays.h"
#include "profiler/cpu/cpu_kernels.h"
#include "suite.h"

using namespace arena::cpu;
using namespace arena::test;

namespace {

struct Inputs {
    Doubles q, k, v;
};

Doubles reference(const Attention& a, const Inputs& in) {
    const Index d = a.head_dim, e = a.value_dim, group = a.heads / a.kv_heads;
    Doubles o(at(a.heads * a.seq * e), 0);
    for (Index h = 0; h < a.heads; ++h)
        for (Index r = 0; r < a.seq; ++r) {
            const Index end = a.causal ? r + 1 : a.seq;
            const Index begin = a.window > 0 ? std::max<Index>(0, r + 1 - a.window) : 0;
            Doubles p(at(end), 0);
            double sum = 0;
            for (Index c = begin; c < end; ++c) {
                double score = 0;
                for (Index i = 0; i < d; ++i)
                    score += in.q[at((h * a.seq + r) * d + i)] *
                             in.k[at((h / group * a.seq + c) * d + i)];
                p[at(c)] = std::exp(score / std::sqrt(static_cast<double>(d)));
                sum += p[at(c)];
            }
            for (Index c = begin; c < end; ++c)
                for (Index i = 0; i < e; ++i)
                    o[at((h * a.seq + r) * e + i)] +=
                        p[at(c)] / sum * in.v[at((h / group * a.seq + c) * e + i)];
        }
    return o;
}

/// Differences of sum(weight * o) in a few elements of one input; the rest is taken from `got`.
void check_gradient(const Attention& a, const Inputs& in, const Doubles& weight,
                    Doubles Inputs::*which, const Floats& got, const char* what) {
    const auto loss = [&](const Inputs& x) {
        const Doubles o = reference(a, x);
        double sum = 0;
        for (std::size_t i = 0; i < o.size(); ++i) sum += weight[i] * o[i];
        return sum;
    };
    Inputs moved = in;
    const std::size_t size = (in.*which).size();
    for (std::size_t k = 0; k < 12; ++k) {
        const std::size_t i = (k * 7919 + 13) % size;
        (moved.*which)[i] = (in.*which)[i] + 1e-5;
        const double up = loss(moved);
        (moved.*which)[i] = (in.*which)[i] - 1e-5;
        const double slope = (up - loss(moved)) / 2e-5;
        (moved.*which)[i] = (in.*which)[i];
        ck_assert_msg(std::abs(slope - static_cast<double>(got[i])) < 2e-4, "%s[%zu]: %g, got %g",
                      what, i, slope, static_cast<double>(got[i]));
    }
}

constexpr Attention cases[] = {{4, 2, 150, 8, true, 8, 0},   {2, 1, 150, 8, true, 8, 7},
                               {2, 2, 150, 12, true, 8, 0},  {2, 2, 70, 12, false, 8, 0},
                               {2, 1, 150, 12, true, 8, 64}, {2, 2, 130, 8, true, 8, 1},
                               {2, 2, 65, 8, true, 16, 200}};

}  // namespace

TEST_NEEDING(windows_and_value_sizes_agree_with_fp64,
             have_gemm() ? "" : "this build has neither OpenBLAS nor oneDNN") {
    for (const Attention& a : cases)
        for (const int threads : {1, 2}) {
            const Index scores = a.heads * a.seq, keys = a.kv_heads * a.seq;
            const Floats q = draw(scores * a.head_dim, 1), k = draw(keys * a.head_dim, 2),
                         v = draw(keys * a.value_dim, 3), d_o = draw(scores * a.value_dim, 4);
            Floats o(d_o.size(), 1e9F), lse(at(scores), 1e9F), dq(q.size(), 0), dk(k.size(), 1e9F),
                dv(v.size(), 1e9F);
            const Inputs in{wide(q), wide(k), wide(v)};
            attention_forward(a, q.data(), k.data(), v.data(), o.data(), lse.data(), threads);
            close(o, reference(a, in), 1e-5, "o");
            attention_backward(
                a, {.q = q.data(), .k = k.data(), .v = v.data(), .o = o.data(), .lse = lse.data()},
                d_o.data(), {.q = dq.data(), .k = dk.data(), .v = dv.data()}, threads);
            check_gradient(a, in, wide(d_o), &Inputs::q, dq, "dq");
            check_gradient(a, in, wide(d_o), &Inputs::k, dk, "dk");
            check_gradient(a, in, wide(d_o), &Inputs::v, dv, "dv");
        }
}
