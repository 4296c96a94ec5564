// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/cpu/cpu_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

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

void multiply_beta(const cpu::Gemm& g, const float* a, const float* b, float beta, float* c) {
    cpu::gemm(g, {a, g.layout == Layout::tn ? g.m : g.k}, {b, g.layout == Layout::nt ? g.k : g.n},
              beta, {c, g.n});
}

/// What a pointer of this device points to.
const float* host(Pointer<const Element> p) { return reinterpret_cast<const float*>(p.address()); }
float* host(Pointer<Element> p) { return reinterpret_cast<float*>(p.address()); }
template <typename T>
T* host(Pointer<T> p) {
    return p.address();
}
std::span<float> host(Span<Element> x) { return {host(x.data()), x.size()}; }
std::span<const float> host(Span<const Element> x) { return {host(x.data()), x.size()}; }
template <typename T>
std::span<T> host(Span<T> x) {
    return {host(x.data()), x.size()};
}

/// Elements are floats: all as a Comm does it.
class HostGroup final : public Group {
  public:
    explicit HostGroup(Comm& comm) : comm_(comm) {}
    void all_reduce_sum(Span<Element> x) override { comm_.all_reduce_sum(host(x)); }
    void all_reduce_sum(Span<float> x) override { comm_.all_reduce_sum(host(x)); }
    void all_reduce_max(Span<float> x) override { comm_.all_reduce_max(host(x)); }
    void reduce_scatter(Span<const float> whole, Span<float> part) override {
        comm_.reduce_scatter(host(whole), host(part));
    }
    void all_gather(Span<const Element> part, Span<Element> whole) override {
        comm_.all_gather(host(part), host(whole));
    }
    void send(Span<const Element> x, int to) override { comm_.send(host(x), to); }
    void receive(Span<Element> x, int from) override { comm_.receive(host(x), from); }
    void flush() override { comm_.flush(); }
    void transfer(Span<Element> x, int from, int to) override { comm_.transfer(host(x), from, to); }
    void connect(const RankLayout&, const Place&) override {}

  private:
    Comm& comm_;
};

class CpuDevice final : public Device {
  public:
    explicit CpuDevice(int threads) : Device(Memory::host), threads_(threads) {}
    [[nodiscard]] std::string name() const override { return "cpu"; }
    std::unique_ptr<Group> group(Comm& comm) override { return std::make_unique<HostGroup>(comm); }

    void* allocate(std::size_t bytes) override {
        return std::memset(::operator new(bytes), 0, bytes);
    }
    void release(void* p) noexcept override { ::operator delete(p); }
    void clear(void* p, std::size_t bytes) override {
        auto* const x = static_cast<float*>(p);
        spread(static_cast<Index>(bytes / sizeof *x), 1, threads_,
               [&](Index begin, Index end) { std::fill(x + begin, x + end, 0.0F); });
    }
    void copy_in(const void* from, std::size_t bytes, void* to) override {
        std::memcpy(to, from, bytes);
    }
    void copy_out(const void* from, std::size_t bytes, void* to) override {
        std::memcpy(to, from, bytes);
    }

    void multiply(Layout layout, Index m, Index n, Index k, In a, In b, Out c) override {
        multiply_beta({layout, m, n, k}, host(a), host(b), 0, host(c));
    }
    void multiply_add(Layout layout, Index m, Index n, Index k, In a, In b, Numbers c) override {
        multiply_beta({layout, m, n, k}, host(a), host(b), 1, host(c));
    }

    void norm_forward(Index rows, Index cols, In x, In gamma, In beta, Out y,
                      Numbers saved) override {
        cpu::norm_forward({rows, cols},
                          {.x = host(x),
                           .gamma = host(gamma),
                           .beta = host(beta),
                           .y = host(y),
                           .saved = host(saved)},
                          threads_);
    }
    void norm_backward(Index rows, Index cols, const NormInputs& i, In dy, Out dx, Numbers d_gamma,
                       Numbers d_beta) override {
        partial_.resize(at(2 * cols * threads_));
        gamma_.resize(at(cols));
        beta_.resize(at(cols));
        cpu::norm_backward({rows, cols},
                           {.x = host(i.x), .gamma = host(i.gamma), .saved = host(i.saved)},
                           host(dy), {.x = host(dx), .gamma = gamma_.data(), .beta = beta_.data()},
                           partial_.data(), threads_);
        add_to(cols, gamma_.data(), host(d_gamma));
        add_to(cols, beta_.data(), host(d_beta));
    }

    void add_bias(Index rows, Index cols, In bias, Out y) override {
        spread(rows, cols, threads_, [&](Index begin, Index end) {
            for (Index r = begin; r < end; ++r) add_to(cols, host(bias), host(y) + r * cols);
        });
    }
    void add_column_sums(Index rows, Index cols, In x, Numbers sums) override {
        spread(cols, rows, threads_, [&](Index begin, Index end) {
            for (Index r = 0; r < rows; ++r)
                add_to(end - begin, host(x) + r * cols + begin, host(sums) + begin);
        });
    }
    void accumulate(Index n, In b, Out a) override {
        spread(n, 1, threads_, [&](Index begin, Index end) {
            add_to(end - begin, host(b) + begin, host(a) + begin);
        });
    }
    void bias_residual(Index rows, Index cols, In x, In bias, In residual, Out y) override {
        cpu::bias_residual_forward(rows, cols, host(x), host(bias), host(residual), host(y),
                                   threads_);
    }
    void gelu_forward(Index n, In x, Out y) override {
        cpu::gelu_forward(n, host(x), host(y), threads_);
    }
    void gelu_backward(Index n, In x, In dy, Out dx) override {
        cpu::gelu_backward(n, host(x), host(dy), host(dx), threads_);
    }

    void to_heads(const HeadsShape& s, In rows, Out heads) override {
        for_each_head_row(s, threads_, [&](Index r, Index h) {
            std::copy_n(host(rows) + r, s.of.head_dim, host(heads) + h);
        });
    }
    void to_rows(const HeadsShape& s, In heads, Out rows) override {
        for_each_head_row(s, threads_, [&](Index r, Index h) {
            std::copy_n(host(heads) + h, s.of.head_dim, host(rows) + r);
        });
    }
    void attention_forward(const AttentionShape& s, const AttentionTensors& t) override {
        cpu::attention_forward(attention(s), host(t.q), host(t.k), host(t.v), host(t.out),
                               host(t.lse), threads_);
    }
    void attention_backward(const AttentionShape& s, const AttentionTensors& t, In d_out, Out dq,
                            Out dk, Out dv) override {
        cpu::attention_backward(
            attention(s),
            {.q = host(t.q), .k = host(t.k), .v = host(t.v), .o = host(t.out), .lse = host(t.lse)},
            host(d_out), {.q = host(dq), .k = host(dk), .v = host(dv)}, threads_);
    }

    void gather_rows(const LogitsShape& s, Index hidden, Tokens ids, In table, Out out) override {
        for (Index t = 0; t < s.tokens; ++t) {
            const Index row = place_of(s, host(ids)[at(t)]);
            if (row >= 0)
                std::copy_n(host(table) + row * hidden, hidden, host(out) + t * hidden);
            else
                std::fill_n(host(out) + t * hidden, hidden, 0.0F);
        }
    }
    void scatter_rows(const LogitsShape& s, Index hidden, Tokens ids, In d_out,
                      Numbers d_table) override {
        spread(hidden, s.tokens, threads_, [&](Index begin, Index end) {
            for (Index t = 0; t < s.tokens; ++t)
                if (const Index row = place_of(s, host(ids)[at(t)]); row >= 0)
                    add_to(end - begin, host(d_out) + t * hidden + begin,
                           host(d_table) + row * hidden + begin);
        });
    }

    void top_and_target(const LogitsShape& s, In logits, Tokens labels, Numbers top,
                        Numbers target) override {
        spread(s.tokens, s.width, threads_, [&](Index begin, Index end) {
            for (Index t = begin; t < end; ++t) {
                const float* row = host(logits) + t * s.width;
                host(top)[t] = largest(s.width, row);
                const Index label = place_of(s, host(labels)[at(t)]);
                host(target)[t] = label >= 0 ? row[label] : 0.0F;
            }
        });
    }
    void sum_exponentials(const LogitsShape& s, Out logits, ConstNumbers top,
                          Numbers sums) override {
        spread(s.tokens, s.width, threads_, [&](Index begin, Index end) {
            for (Index t = begin; t < end; ++t)
                host(sums)[t] = exponentials(s.width, host(top)[t], host(logits) + t * s.width);
        });
    }
    void logits_gradient(const LogitsShape& s, Out logits, Tokens labels, ConstNumbers,
                         ConstNumbers sums, float factor) override {
        spread(s.tokens, s.width, threads_, [&](Index begin, Index end) {
            for (Index t = begin; t < end; ++t) {
                float* const row = host(logits) + t * s.width;
                multiply_by(s.width, factor / host(sums)[t], row);
                if (const Index label = place_of(s, host(labels)[at(t)]); label >= 0)
                    row[label] -= factor;
            }
        });
    }

    void add_losses(Index tokens, ConstNumbers top, ConstNumbers target, ConstNumbers sums,
                    Sum sum) override {
        double loss = 0;
        for (Index t = 0; t < tokens; ++t)
            loss += std::log(static_cast<double>(host(sums)[t])) +
                    static_cast<double>(host(top)[t] - host(target)[t]);
        *host(sum) += loss;
    }
    void add_squares(Index n, ConstNumbers x, Sum sum) override {
        std::vector<double> parts(at(threads_));
        cpu::parallel_for(n, threads_for(n, threads_), [&](int part, Index begin, Index end) {
            parts[at(part)] = squares(end - begin, host(x) + begin);
        });
        for (const double part : parts) *host(sum) += part;
    }

    void scale(Index n, float factor, Numbers x) override {
        spread(n, 1, threads_,
               [&](Index begin, Index end) { multiply_by(end - begin, factor, host(x) + begin); });
    }
    void adamw(const AdamW& adam, Index n, Numbers masters, ConstNumbers gradient, Numbers first,
               Numbers second, Out) override {
        cpu::adamw(adam, n, host(masters), host(gradient), host(first), host(second), threads_);
    }

  private:
    int threads_;
    std::vector<float> partial_, gamma_, beta_;  ///< of norm_backward()
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
    return std::make_unique<CpuDevice>(threads);
}

}  // namespace arena::train
