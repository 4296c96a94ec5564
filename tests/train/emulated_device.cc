// SPDX-License-Identifier: GPL-2.0-or-later
// A far device on the host, for tests: everything of arena-train that is not the CUDA back-end
// itself runs over it. Operations are the CPU's on values that are rounded to bf16 whenever they
// are stored, so that losses show what the precision does. Its addresses are no addresses of the
// host: whoever follows one outside this file, or hands the device memory of the host, ends with a
// segmentation fault.
#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

#include "train/core/far_device.h"

namespace arena::train {
namespace {

/// Not canonical on x86-64 and aarch64 once it is flipped.
constexpr std::uintptr_t far_bit = std::uintptr_t{1} << 55;

template <typename T>
T* flip(T* p) {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(p) ^ far_bit);
}
template <typename T>
T* near(Far<T> p) {
    return flip(p.address());
}
std::span<const std::int32_t> near(FarSpan<const std::int32_t> ids) {
    return {near(ids.data()), ids.size()};
}

std::vector<float> load(Far<const Bf16> p, Index n) {
    std::vector<float> values(at(n));
    std::transform(near(p), near(p) + n, values.begin(), to_float);
    return values;
}
void store(const std::vector<float>& values, Far<Bf16> p) {
    std::ranges::transform(values, near(p), to_bf16);
}
/// A result of n values that `compute` fills.
template <typename F>
void result(Index n, Far<Bf16> to, F compute) {
    std::vector<float> values(at(n));
    compute(values.data());
    store(values, to);
}
/// The same over what is there.
template <typename F>
void change(Index n, Far<Bf16> to, F compute) {
    std::vector<float> values = load(to, n);
    compute(values.data());
    store(values, to);
}

}  // namespace

struct FarDevice::State {
    CpuDevice cpu;
};

void* far_allocate(std::size_t bytes) {
    void* p = std::calloc(1, bytes);
    if (p == nullptr) throw std::bad_alloc();
    return flip(static_cast<char*>(p));
}
void far_free(void* p) noexcept {
    if (p != nullptr) std::free(flip(static_cast<char*>(p)));
}

FarDevice make_device(int threads, Comm&) {
    cpu::set_gemm_threads(threads);
    return FarDevice(std::make_shared<FarDevice::State>(FarDevice::State{CpuDevice(threads)}));
}
/// A test may have it pass for a GPU of hardware.yaml.
std::string FarDevice::name() const {
    const char* name = std::getenv("ARENA_EMULATED_NAME");
    return name != nullptr ? name : "emulated";
}

void FarDevice::multiply(Layout layout, Index m, Index n, Index k, In a, In b, Out c) const {
    result(m * n, c, [&](float* y) {
        state().cpu.multiply(layout, m, n, k, load(a, m * k).data(), load(b, n * k).data(), y);
    });
}
void FarDevice::multiply_add(Layout layout, Index m, Index n, Index k, In a, In b,
                             Numbers c) const {
    state().cpu.multiply_add(layout, m, n, k, load(a, m * k).data(), load(b, n * k).data(),
                             near(c));
}

void FarDevice::norm_forward(Index rows, Index cols, In x, In gamma, In beta, Out y,
                             Numbers saved) const {
    result(rows * cols, y, [&](float* out) {
        state().cpu.norm_forward(rows, cols, load(x, rows * cols).data(), load(gamma, cols).data(),
                                 load(beta, cols).data(), out, near(saved));
    });
}
void FarDevice::norm_backward(Index rows, Index cols, In x, In gamma, ConstNumbers saved, In dy,
                              Out dx, Numbers d_gamma, Numbers d_beta, NormScratch&) const {
    CpuDevice::NormScratch scratch(cols, state().cpu);
    result(rows * cols, dx, [&](float* out) {
        state().cpu.norm_backward(rows, cols, load(x, rows * cols).data(), load(gamma, cols).data(),
                                  near(saved), load(dy, rows * cols).data(), out, near(d_gamma),
                                  near(d_beta), scratch);
    });
}

void FarDevice::add_bias(Index rows, Index cols, In bias, Out y) const {
    change(rows * cols, y,
           [&](float* out) { state().cpu.add_bias(rows, cols, load(bias, cols).data(), out); });
}
void FarDevice::add_column_sums(Index rows, Index cols, In x, Numbers sums) const {
    state().cpu.add_column_sums(rows, cols, load(x, rows * cols).data(), near(sums));
}
void FarDevice::accumulate(Index n, In b, Out a) const {
    change(n, a, [&](float* out) { state().cpu.accumulate(n, load(b, n).data(), out); });
}
void FarDevice::bias_residual(Index rows, Index cols, In x, In bias, In residual, Out y) const {
    result(rows * cols, y, [&](float* out) {
        state().cpu.bias_residual(rows, cols, load(x, rows * cols).data(), load(bias, cols).data(),
                                  load(residual, rows * cols).data(), out);
    });
}
void FarDevice::gelu_forward(Index n, In x, Out y) const {
    result(n, y, [&](float* out) { state().cpu.gelu_forward(n, load(x, n).data(), out); });
}
void FarDevice::gelu_backward(Index n, In x, In dy, Out dx) const {
    result(n, dx, [&](float* out) {
        state().cpu.gelu_backward(n, load(x, n).data(), load(dy, n).data(), out);
    });
}

namespace {

Index heads_size(const AttentionShape& s) { return s.samples * s.heads * s.seq * s.head_dim; }

/// Attention's inputs in fp32, and memory for its result.
struct NearAttention {
    NearAttention(const AttentionShape& s, const FarDevice::AttentionTensors& t)
        : q(load(t.q, heads_size(s))),
          k(load(t.k, heads_size(s))),
          v(load(t.v, heads_size(s))),
          out(load(t.out, heads_size(s))),
          lse(near(t.lse)) {}
    CpuDevice::AttentionTensors tensors() {
        return {q.data(), k.data(), v.data(), out.data(), lse};
    }
    std::vector<float> q, k, v, out;
    float* lse;
};

}  // namespace

void FarDevice::to_heads(const HeadsShape& s, In rows, Out heads) const {
    result(heads_size(s.of), heads, [&](float* out) {
        state().cpu.to_heads(s, load(rows, s.parts * heads_size(s.of)).data(), out);
    });
}
void FarDevice::to_rows(const HeadsShape& s, In heads, Out rows) const {
    change(s.parts * heads_size(s.of), rows,
           [&](float* out) { state().cpu.to_rows(s, load(heads, heads_size(s.of)).data(), out); });
}
void FarDevice::attention_forward(const AttentionShape& s, const AttentionTensors& t) const {
    NearAttention n(s, t);
    state().cpu.attention_forward(s, n.tensors());
    store(n.out, t.out);
}
void FarDevice::attention_backward(const AttentionShape& s, const AttentionTensors& t, In d_out,
                                   Out dq, Out dk, Out dv) const {
    NearAttention n(s, t);
    std::vector<float> q(n.q.size()), k(q.size()), v(q.size());
    state().cpu.attention_backward(s, n.tensors(), load(d_out, heads_size(s)).data(), q.data(),
                                   k.data(), v.data());
    store(q, dq);
    store(k, dk);
    store(v, dv);
}

void FarDevice::gather_rows(const LogitsShape& s, Index hidden, Ids ids, In table, Out out) const {
    result(s.tokens * hidden, out, [&](float* y) {
        state().cpu.gather_rows(s, hidden, near(ids), load(table, s.width * hidden).data(), y);
    });
}
void FarDevice::scatter_rows(const LogitsShape& s, Index hidden, Ids ids, In d_out,
                             Numbers d_table) const {
    state().cpu.scatter_rows(s, hidden, near(ids), load(d_out, s.tokens * hidden).data(),
                             near(d_table));
}

void FarDevice::top_and_target(const LogitsShape& s, In logits, Ids labels, Numbers top,
                               Numbers target) const {
    state().cpu.top_and_target(s, load(logits, s.tokens * s.width).data(), near(labels), near(top),
                               near(target));
}
/// The logits stay as they are.
void FarDevice::sum_exponentials(const LogitsShape& s, Out logits, ConstNumbers top,
                                 Numbers sums) const {
    std::vector<float> values = load(logits, s.tokens * s.width);
    state().cpu.sum_exponentials(s, values.data(), near(top), near(sums));
}
void FarDevice::logits_gradient(const LogitsShape& s, Out logits, Ids labels, ConstNumbers top,
                                ConstNumbers sums, float scale) const {
    std::vector<float> again(at(s.tokens));
    change(s.tokens * s.width, logits, [&](float* x) {
        state().cpu.sum_exponentials(s, x, near(top), again.data());
        state().cpu.logits_gradient(s, x, near(labels), near(top), near(sums), scale);
    });
}

void FarDevice::clear(Sum& sum) const { *near(sum.value.data()) = 0; }
double FarDevice::value(const Sum& sum) const { return *near(sum.value.data()); }
void FarDevice::add_losses(Index tokens, ConstNumbers top, ConstNumbers target, ConstNumbers sums,
                           Sum& sum) const {
    CpuDevice::Sum loss;
    state().cpu.add_losses(tokens, near(top), near(target), near(sums), loss);
    *near(sum.value.data()) += loss.value;
}
void FarDevice::add_squares(Index n, ConstNumbers x, Sum& sum) const {
    CpuDevice::Sum squares;
    state().cpu.add_squares(n, near(x), squares);
    *near(sum.value.data()) += squares.value;
}
void FarDevice::scale(Index n, float factor, Numbers x) const {
    state().cpu.scale(n, factor, near(x));
}
void FarDevice::fill_zero(FarSpan<float> x) const { std::fill_n(near(x.data()), x.size(), 0.0F); }
void FarDevice::adamw(const AdamW& adam, Index n, Numbers masters, ConstNumbers gradient,
                      Numbers first, Numbers second, Out weights) const {
    float* const p = near(masters);
    state().cpu.adamw(adam, n, p, near(gradient), near(first), near(second), p);
    std::transform(p, p + n, near(weights), to_bf16);
}

void FarDevice::copy_in(const void* host, std::size_t bytes, void* to) const {
    std::copy_n(static_cast<const char*>(host), bytes, flip(static_cast<char*>(to)));
}
void FarDevice::download(ConstNumbers from, std::span<float> host) const {
    std::copy_n(near(from), host.size(), host.begin());
}
void FarDevice::wait() const {}

namespace {

/// By way of the host's Comm. A sum of bf16 values is formed in fp32 and rounded once.
class EmulatedGroup final : public FarGroup {
  public:
    explicit EmulatedGroup(Comm& comm) : comm_(comm) {}
    void all_reduce_sum(FarSpan<Bf16> x) override {
        std::vector<float> values = load(x.data(), static_cast<Index>(x.size()));
        comm_.all_reduce_sum(std::span(values));
        store(values, x.data());
    }
    void all_reduce_sum(FarSpan<float> x) override { comm_.all_reduce_sum(host(x)); }
    void all_reduce_max(FarSpan<float> x) override { comm_.all_reduce_max(host(x)); }
    void reduce_scatter(FarSpan<const float> whole, FarSpan<float> part) override {
        comm_.reduce_scatter({near(whole.data()), whole.size()}, host(part));
    }
    void all_gather(FarSpan<const Bf16> part, FarSpan<Bf16> whole) override {
        std::vector<float> all(whole.size());
        comm_.all_gather(load(part.data(), static_cast<Index>(part.size())), all);
        store(all, whole.data());
    }
    void send(FarSpan<const Bf16> x, int to) override {
        comm_.send(load(x.data(), static_cast<Index>(x.size())), to);
    }
    void receive(FarSpan<Bf16> x, int from) override {
        std::vector<float> values(x.size());
        comm_.receive(values, from);
        store(values, x.data());
    }
    void flush() override { comm_.flush(); }
    void connect(const RankLayout&, const Place&) override {}

  private:
    static std::span<float> host(FarSpan<float> x) { return {near(x.data()), x.size()}; }
    Comm& comm_;
};

}  // namespace

std::unique_ptr<FarGroup> make_group(Comm& comm, const FarDevice&) {
    return std::make_unique<EmulatedGroup>(comm);
}

}  // namespace arena::train
