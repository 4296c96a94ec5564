// SPDX-License-Identifier: GPL-2.0-or-later
// Every CPU operator against a naive fp64 reference, forward and backward, on shapes that are not
// multiples of a vector, a block or the thread count. Error = max |got - want| / (1e-3 + max
// |want|); bounds: 1e-6 for sums of few terms and element-wise functions, 1e-5 where hundreds of
// terms add up.
#include <cmath>
#include <functional>
#include <vector>

#include "float_arrays.h"
#include "profiler/cpu/cpu_kernels.h"
#include "suite.h"

using namespace arena::cpu;
using namespace arena::test;

namespace {

/// What an output holds before: a kernel that forgets an element is seen.
Floats stale(Index n) { return Floats(at(n), 1e9F); }

/// d(sum(weight * f(x)))/dx by central differences in fp64: an independent check of a backward
/// formula.
Doubles numeric_gradient(Doubles x, const Doubles& weight,
                         const std::function<Doubles(const Doubles&)>& f) {
    Doubles gradient(x.size());
    const double h = 1e-5;
    const auto loss = [&](const Doubles& at) {
        const Doubles y = f(at);
        double sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) sum += weight[i] * y[i];
        return sum;
    };
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double was = x[i];
        x[i] = was + h;
        const double up = loss(x);
        x[i] = was - h;
        gradient[i] = (up - loss(x)) / (2 * h);
        x[i] = was;
    }
    return gradient;
}

const int thread_counts[] = {1, 2, 3};

Doubles gemm_reference(const Gemm& g, Index batch, const Floats& a, const Floats& b) {
    Doubles c(at(batch * g.m * g.n));
    for (Index q = 0; q < batch; ++q)
        for (Index i = 0; i < g.m; ++i)
            for (Index j = 0; j < g.n; ++j) {
                double sum = 0;
                for (Index l = 0; l < g.k; ++l) {
                    const Index ia = g.layout == Layout::tn ? l * g.m + i : i * g.k + l;
                    const Index ib = g.layout == Layout::nt ? j * g.k + l : l * g.n + j;
                    sum +=
                        static_cast<double>(a[at(q * g.m * g.k + ia)]) * b[at(q * g.k * g.n + ib)];
                }
                c[at((q * g.m + i) * g.n + j)] = sum;
            }
    return c;
}

/// softmax(q k^T / sqrt(d)) v, heads grouped over kv heads.
Doubles attention_reference(const Attention& a, const Doubles& q, const Doubles& k,
                            const Doubles& v) {
    Doubles o(q.size(), 0);
    const double scale = 1 / std::sqrt(static_cast<double>(a.head_dim));
    for (Index h = 0; h < a.heads; ++h)
        for (Index i = 0; i < a.seq; ++i) {
            const Index kv = h / (a.heads / a.kv_heads), end = a.causal ? i + 1 : a.seq;
            Doubles p(at(end));
            double sum = 0;
            for (Index j = 0; j < end; ++j) {
                double dot = 0;
                for (Index d = 0; d < a.head_dim; ++d)
                    dot += q[at((h * a.seq + i) * a.head_dim + d)] *
                           k[at((kv * a.seq + j) * a.head_dim + d)];
                sum += p[at(j)] = std::exp(dot * scale);
            }
            for (Index j = 0; j < end; ++j)
                for (Index d = 0; d < a.head_dim; ++d)
                    o[at((h * a.seq + i) * a.head_dim + d)] +=
                        p[at(j)] / sum * v[at((kv * a.seq + j) * a.head_dim + d)];
        }
    return o;
}

Doubles norm_reference(const Norm& n, const Doubles& x, const Doubles& gamma, const Doubles& beta) {
    Doubles y(x.size());
    for (Index r = 0; r < n.rows; ++r) {
        double mean = 0, square = 0;
        for (Index i = 0; i < n.cols && !n.rms; ++i) mean += x[at(r * n.cols + i)];
        mean /= static_cast<double>(n.cols);
        for (Index i = 0; i < n.cols; ++i) square += std::pow(x[at(r * n.cols + i)] - mean, 2);
        const double deviation = std::sqrt(square / static_cast<double>(n.cols) + n.epsilon);
        for (Index i = 0; i < n.cols; ++i)
            y[at(r * n.cols + i)] = (x[at(r * n.cols + i)] - mean) / deviation * gamma[at(i)] +
                                    (n.rms ? 0 : beta[at(i)]);
    }
    return y;
}

double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double silu(double x) { return x / (1 + std::exp(-x)); }

Doubles mapped(const Doubles& x, double (*f)(double)) {
    Doubles y;
    for (const double v : x) y.push_back(f(v));
    return y;
}

}  // namespace

TEST_NEEDING(gemm_of_every_layout_agrees_with_fp64,
             have_gemm() ? "" : "this build has neither OpenBLAS nor oneDNN") {
    for (const auto layout : {Layout::nt, Layout::nn, Layout::tn})
        for (const Index batch : {1, 2, 9})
            for (const int threads : thread_counts) {
                const Gemm g{layout, 37, 53, 129};
                const auto a = draw(batch * g.m * g.k, 1), b = draw(batch * g.k * g.n, 2);
                auto c = stale(batch * g.m * g.n);
                set_gemm_threads(threads);
                batched_gemm(g, batch, a.data(), b.data(), c.data(), threads);
                close(c, gemm_reference(g, batch, a, b), 1e-5, "gemm");
            }
}

TEST_NEEDING(attention_forward_agrees_with_fp64,
             have_gemm() ? "" : "this build has neither OpenBLAS nor oneDNN") {
    for (const bool causal : {false, true})
        for (const Index kv_heads : {1, 2, 4})
            for (const int threads : thread_counts) {
                const Attention a{4, kv_heads, 131, 17, causal};
                const auto q = draw(a.heads * a.seq * a.head_dim, 1, 4),
                           k = draw(kv_heads * a.seq * a.head_dim, 2, 4),
                           v = draw(kv_heads * a.seq * a.head_dim, 3);
                auto o = stale(a.heads * a.seq * a.head_dim), lse = stale(a.heads * a.seq);
                attention_forward(a, q.data(), k.data(), v.data(), o.data(), lse.data(), threads);
                close(o, attention_reference(a, wide(q), wide(k), wide(v)), 1e-5, "attention");
            }
}

TEST_NEEDING(attention_backward_agrees_with_differences_of_the_fp64_forward,
             have_gemm() ? "" : "this build has neither OpenBLAS nor oneDNN") {
    for (const bool causal : {false, true})
        for (const Index kv_heads : {1, 2}) {
            const Attention a{2, kv_heads, 67, 3, causal};
            const Index nq = a.heads * a.seq * a.head_dim, nk = kv_heads * a.seq * a.head_dim;
            const auto q = draw(nq, 1, 4), k = draw(nk, 2, 4), v = draw(nk, 3), d_o = draw(nq, 4);
            auto o = stale(nq), lse = stale(a.heads * a.seq), dq = stale(nq), dk = stale(nk),
                 dv = stale(nk);
            attention_forward(a, q.data(), k.data(), v.data(), o.data(), lse.data(), 2);
            attention_backward(
                a, {.q = q.data(), .k = k.data(), .v = v.data(), .o = o.data(), .lse = lse.data()},
                d_o.data(), {.q = dq.data(), .k = dk.data(), .v = dv.data()}, 2);
            const Doubles Q = wide(q), K = wide(k), V = wide(v), W = wide(d_o);
            close(dq,
                  numeric_gradient(
                      Q, W, [&](const Doubles& x) { return attention_reference(a, x, K, V); }),
                  1e-5, "dq");
            close(dk,
                  numeric_gradient(
                      K, W, [&](const Doubles& x) { return attention_reference(a, Q, x, V); }),
                  1e-5, "dk");
            close(dv,
                  numeric_gradient(
                      V, W, [&](const Doubles& x) { return attention_reference(a, Q, K, x); }),
                  1e-5, "dv");
        }
}

TEST(norms_agree_with_fp64_forward_and_backward) {
    for (const bool rms : {false, true})
        for (const int threads : thread_counts) {
            const Norm n{5, 43, rms};
            const auto x = draw(n.rows * n.cols, 1, 6), gamma = draw(n.cols, 2),
                       beta = draw(n.cols, 3), dy = draw(n.rows * n.cols, 4);
            auto y = stale(n.rows * n.cols), saved = stale(2 * n.rows), dx = stale(n.rows * n.cols),
                 dg = stale(n.cols), db = stale(n.cols), partial = stale(threads * 2 * n.cols);
            const Doubles X = wide(x), G = wide(gamma), B = wide(beta), W = wide(dy);
            norm_forward(n,
                         {.x = x.data(),
                          .gamma = gamma.data(),
                          .beta = beta.data(),
                          .y = y.data(),
                          .saved = saved.data()},
                         threads);
            close(y, norm_reference(n, X, G, B), 2e-6, "norm");
            norm_backward(n, {.x = x.data(), .gamma = gamma.data(), .saved = saved.data()},
                          dy.data(), {.x = dx.data(), .gamma = dg.data(), .beta = db.data()},
                          partial.data(), threads);
            close(dx,
                  numeric_gradient(X, W,
                                   [&](const Doubles& v) { return norm_reference(n, v, G, B); }),
                  1e-5, "dx");
            close(dg,
                  numeric_gradient(G, W,
                                   [&](const Doubles& v) { return norm_reference(n, X, v, B); }),
                  1e-5, "dgamma");
            if (!rms)
                close(db,
                      numeric_gradient(
                          B, W, [&](const Doubles& v) { return norm_reference(n, X, G, v); }),
                      1e-5, "dbeta");
        }
}

TEST(gelu_agrees_with_fp64_forward_and_backward) {
    for (const int threads : thread_counts) {
        const Index n = 1003;
        const auto x = draw(n, 1, 40), dy = draw(n, 2);
        auto y = stale(n), dx = stale(n);
        gelu_forward(n, x.data(), y.data(), threads);
        close(y, mapped(wide(x), gelu), 1e-6, "gelu");
        const auto near = draw(n, 3, 8);
        gelu_forward(n, near.data(), y.data(), threads);
        close(y, mapped(wide(near), gelu), 1e-6, "gelu near 0");
        gelu_backward(n, near.data(), dy.data(), dx.data(), threads);
        Doubles want(at(n));
        for (std::size_t i = 0; i < want.size(); ++i)
            want[i] = dy[i] * (gelu(near[i] + 1e-5) - gelu(near[i] - 1e-5)) / 2e-5;
        close(dx, want, 2e-6, "dgelu");
    }
}

TEST(swiglu_agrees_with_fp64_forward_and_backward) {
    for (const int threads : thread_counts) {
        const Index n = 1003;
        const auto gate = draw(n, 1, 12), up = draw(n, 2), dy = draw(n, 3);
        auto y = stale(n), dg = stale(n), du = stale(n);
        swiglu_forward(n, gate.data(), up.data(), y.data(), threads);
        swiglu_backward(n, gate.data(), up.data(), dy.data(), dg.data(), du.data(), threads);
        Doubles want(at(n)), want_gate(want), want_up(want);
        for (std::size_t i = 0; i < want.size(); ++i) {
            const double g = gate[i], u = up[i];
            want[i] = silu(g) * u;
            want_gate[i] = dy[i] * u * (silu(g + 1e-5) - silu(g - 1e-5)) / 2e-5;
            want_up[i] = dy[i] * silu(g);
        }
        close(y, want, 1e-6, "swiglu");
        close(dg, want_gate, 2e-6, "dgate");
        close(du, want_up, 1e-6, "dup");
    }
}

TEST(sums_agree_with_fp64_forward_and_backward) {
    for (const int threads : thread_counts) {
        const Index rows = 7, cols = 45, n = rows * cols;
        const auto x = draw(n, 1), r = draw(n, 2), bias = draw(cols, 3);
        auto y = stale(n), dx = stale(n), db = stale(cols), partial = stale(threads * cols);
        bias_residual_forward(rows, cols, x.data(), bias.data(), r.data(), y.data(), threads);
        bias_residual_backward(rows, cols, r.data(), dx.data(), db.data(), partial.data(), threads);
        Doubles want(at(n)), want_bias(at(cols), 0), sum(at(n));
        for (std::size_t i = 0; i < want.size(); ++i) {
            want[i] = static_cast<double>(x[i]) + bias[i % at(cols)] + r[i];
            want_bias[i % at(cols)] += r[i];
            sum[i] = static_cast<double>(x[i]) + r[i];
        }
        close(y, want, 1e-6, "bias_residual");
        close(dx, wide(r), 0, "dx");
        close(db, want_bias, 1e-6, "dbias");
        add(n, x.data(), r.data(), y.data(), threads);
        close(y, sum, 1e-6, "add");
    }
}

TEST(embedding_gathers_and_adds_up_equal_ids) {
    for (const int threads : thread_counts) {
        const Index tokens = 29, hidden = 19, vocab = 11;
        const auto table = draw(vocab * hidden, 1), d_out = draw(tokens * hidden, 2),
                   before = draw(vocab * hidden, 3);
        std::vector<std::int32_t> ids;
        for (int t = 0; t < tokens; ++t)
            ids.push_back(t * 7 % 10);  // repeats, and row 10 is never used
        auto out = stale(tokens * hidden), d_table = before;
        embedding_forward(tokens, hidden, ids.data(), table.data(), out.data(), threads);
        embedding_backward(tokens, hidden, vocab, ids.data(), d_out.data(), d_table.data(),
                           threads);
        Doubles want(out.size()), want_table = wide(before);
        for (Index t = 0; t < tokens; ++t)
            for (Index i = 0; i < hidden; ++i) {
                want[at(t * hidden + i)] = table[at(ids[at(t)] * hidden + i)];
                want_table[at(ids[at(t)] * hidden + i)] += d_out[at(t * hidden + i)];
            }
        close(out, want, 0, "gather");
        close(d_table, want_table, 1e-6, "scatter");
    }
}

TEST(cross_entropy_agrees_with_fp64_forward_and_backward) {
    for (const int threads : thread_counts) {
        const Index rows = 5, cols = 501;
        const auto x = draw(rows * cols, 1, 30);
        std::vector<std::int32_t> label = {0, 500, 17, 17, 250};
        auto loss = stale(rows), lse = stale(rows), dx = stale(rows * cols);
        cross_entropy_forward(rows, cols, x.data(), label.data(), loss.data(), lse.data(), threads);
        cross_entropy_backward(rows, cols,
                               {.x = x.data(), .label = label.data(), .lse = lse.data()}, 0.25F,
                               dx.data(), threads);
        Doubles want(at(rows)), want_dx(dx.size());
        for (Index r = 0; r < rows; ++r) {
            double sum = 0;
            for (Index i = 0; i < cols; ++i)
                sum += std::exp(static_cast<double>(x[at(r * cols + i)]));
            want[at(r)] = std::log(sum) - x[at(r * cols + label[at(r)])];
            for (Index i = 0; i < cols; ++i)
                want_dx[at(r * cols + i)] =
                    0.25 * (std::exp(static_cast<double>(x[at(r * cols + i)])) / sum -
                            (i == label[at(r)]));
        }
        close(loss, want, 1e-6, "loss");
        close(dx, want_dx, 2e-6, "dlogits");
    }
}

TEST(adamw_agrees_with_fp64_over_three_steps) {
    for (const int threads : thread_counts) {
        const Index n = 1003;
        auto p = draw(n, 1), m = Floats(at(n), 0), v = m;
        Doubles P = wide(p), M = wide(m), V = wide(v);
        AdamW a;
        a.rate = 0.01F;
        for (a.step = 1; a.step <= 3; ++a.step) {
            const auto g = draw(n, static_cast<unsigned>(10 + a.step));
            adamw(a, n, p.data(), g.data(), m.data(), v.data(), threads);
            for (std::size_t i = 0; i < P.size(); ++i) {
                M[i] = a.beta1 * M[i] + (1.0 - a.beta1) * g[i];
                V[i] = a.beta2 * V[i] + (1.0 - a.beta2) * g[i] * g[i];
                const double mh = M[i] / (1 - std::pow(a.beta1, a.step)),
                             vh = V[i] / (1 - std::pow(a.beta2, a.step));
                P[i] -= a.rate * (mh / (std::sqrt(vh) + a.epsilon) + a.decay * P[i]);
            }
        }
        close(p, P, 2e-6, "parameters");
        close(m, M, 1e-6, "first moment");
        close(v, V, 1e-6, "second moment");
    }
}

TEST(parallel_for_covers_each_index_once) {
    for (const Index n : {0, 1, 2, 7, 100})
        for (const int threads : {1, 2, 3, 8}) {
            std::vector<int> seen(at(n), 0);
            parallel_for(n, threads, [&](int part, Index begin, Index end) {
                ck_assert_int_lt(part, threads);
                for (Index i = begin; i < end; ++i) ++seen[at(i)];
            });
            for (const int times : seen) ck_assert_int_eq(times, 1);
        }
}

SUITE({.fork = false});
