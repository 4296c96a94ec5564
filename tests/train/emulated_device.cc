// SPDX-License-Identifier: GPL-2.0-or-later
// A device with memory of its own on the host, for tests: everything of arena-train that is not the
// CUDA back-end itself runs over it, as the module that arena-train opens for --device cuda.
// Operations are the CPU's on values that are rounded to bf16 whenever they are stored, so that
// losses show what the precision does. Its addresses are no addresses of the host: whoever follows
// one outside this file, or hands the device memory of the host, ends with a segmentation fault.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "train/core/device_module.h"
#include "train/cpu/cpu_device.h"

namespace arena::train {
namespace {

/// Not canonical on x86-64 and aarch64 once it is flipped.
constexpr std::uintptr_t far_bit = std::uintptr_t{1} << 55;

template <typename T>
T* flip(T* p) {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(p) ^ far_bit);
}
/// As the CPU takes it.
template <typename T>
Pointer<T> near(Pointer<T> p) {
    return Pointer(flip(p.address()));
}
template <typename T>
Span<T> near(Span<T> x) {
    return {near(x.data()), x.size()};
}
std::span<float> floats(Span<float> x) { return {flip(x.data().address()), x.size()}; }

std::vector<float> load(Pointer<const Element> p, Index n) {
    const auto* const stored = reinterpret_cast<const Bf16*>(flip(p.address()));
    std::vector<float> values(at(n));
    std::transform(stored, stored + n, values.begin(), to_float);
    return values;
}
std::vector<float> load(Span<const Element> x) {
    return load(x.data(), static_cast<Index>(x.size()));
}
void store(const std::vector<float>& values, Pointer<Element> p) {
    std::ranges::transform(values, reinterpret_cast<Bf16*>(flip(p.address())), to_bf16);
}
/// A result of n values that `compute` fills.
template <typename F>
void result(Index n, Pointer<Element> to, F compute) {
    std::vector<float> values(at(n));
    compute(cpu_elements(values));
    store(values, to);
}
/// The same over what is there.
template <typename F>
void change(Index n, Pointer<Element> to, F compute) {
    std::vector<float> values = load(to, n);
    compute(cpu_elements(values));
    store(values, to);
}

Index heads_size(const AttentionShape& s) { return s.samples * s.heads * s.seq * s.head_dim; }

/// Attention's inputs in fp32, and memory for its result.
struct NearAttention {
    NearAttention(const AttentionShape& s, const Device::AttentionTensors& t)
        : q(load(t.q, heads_size(s))),
          k(load(t.k, heads_size(s))),
          v(load(t.v, heads_size(s))),
          out(load(t.out, heads_size(s))),
          lse(near(t.lse)) {}
    Device::AttentionTensors tensors() {
        return {cpu_elements(q), cpu_elements(k), cpu_elements(v), cpu_elements(out), lse};
    }
    std::vector<float> q, k, v, out;
    Pointer<float> lse;
};

/// By way of the host's Comm. A sum of bf16 values is formed in fp32 and rounded once.
class EmulatedGroup final : public Group {
  public:
    explicit EmulatedGroup(Comm& comm) : comm_(comm) {}
    void all_reduce_sum(Span<Element> x) override {
        std::vector<float> values = load(x);
        comm_.all_reduce_sum(std::span(values));
        store(values, x.data());
    }
    void all_reduce_sum(Span<float> x) override { comm_.all_reduce_sum(floats(x)); }
    void all_reduce_max(Span<float> x) override { comm_.all_reduce_max(floats(x)); }
    void reduce_scatter(Span<const float> whole, Span<float> part) override {
        comm_.reduce_scatter({flip(whole.data().address()), whole.size()}, floats(part));
    }
    void all_gather(Span<const Element> part, Span<Element> whole) override {
        std::vector<float> all(whole.size());
        comm_.all_gather(load(part), all);
        store(all, whole.data());
    }
    void send(Span<const Element> x, int to) override { comm_.send(load(x), to); }
    void receive(Span<Element> x, int from) override {
        std::vector<float> values(x.size());
        comm_.receive(values, from);
        store(values, x.data());
    }
    void flush() override { comm_.flush(); }
    void transfer(Span<Element> x, int from, int to) override {
        if (stalls_-- > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::vector<float> values = load(x);
        comm_.transfer(values, from, to);
        store(values, x.data());
    }
    void connect(const RankLayout&, const Place&) override {}

  private:
    /// Of its first transfers; as on a busy machine.
    static int stalls() {
        const char* stalls = std::getenv("ARENA_EMULATED_STALLS");
        return stalls != nullptr ? std::atoi(stalls) : 0;
    }
    Comm& comm_;
    int stalls_ = stalls();
};

class EmulatedDevice final : public Device {
  public:
    explicit EmulatedDevice(int threads) : Device(Memory::own), cpu_(make_cpu_device(threads)) {}
    /// A test may have it pass for a GPU of hardware.yaml.
    [[nodiscard]] std::string name() const override {
        const char* name = std::getenv("ARENA_EMULATED_NAME");
        return name != nullptr ? name : "emulated";
    }
    std::unique_ptr<Group> group(Comm& comm) override {
        return std::make_unique<EmulatedGroup>(comm);
    }

    void* allocate(std::size_t bytes) override {
        void* p = std::calloc(1, bytes);
        if (p == nullptr) throw std::bad_alloc();
        return flip(static_cast<char*>(p));
    }
    void release(void* p) noexcept override { std::free(flip(static_cast<char*>(p))); }
    void clear(void* p, std::size_t bytes) override {
        std::memset(flip(static_cast<char*>(p)), 0, bytes);
    }
    void copy_in(const void* host, std::size_t bytes, void* to) override {
        std::memcpy(flip(static_cast<char*>(to)), host, bytes);
    }
    void copy_out(const void* from, std::size_t bytes, void* host) override {
        std::memcpy(host, flip(static_cast<const char*>(from)), bytes);
    }

    void multiply(Layout layout, Index m, Index n, Index k, In a, In b, Out c) override {
        result(m * n, c, [&](Out y) {
            cpu_->multiply(layout, m, n, k, cpu_elements(load(a, m * k)),
                           cpu_elements(load(b, n * k)), y);
        });
    }
    void multiply_add(Layout layout, Index m, Index n, Index k, In a, In b, Numbers c) override {
        cpu_->multiply_add(layout, m, n, k, cpu_elements(load(a, m * k)),
                           cpu_elements(load(b, n * k)), near(c));
    }

    void norm_forward(Index rows, Index cols, In x, In gamma, In beta, Out y,
                      Numbers saved) override {
        result(rows * cols, y, [&](Out out) {
            cpu_->norm_forward(rows, cols, cpu_elements(load(x, rows * cols)),
                               cpu_elements(load(gamma, cols)), cpu_elements(load(beta, cols)), out,
                               near(saved));
        });
    }
    void norm_backward(Index rows, Index cols, const NormInputs& i, In dy, Out dx, Numbers d_gamma,
                       Numbers d_beta) override {
        const std::vector<float> x = load(i.x, rows * cols), gamma = load(i.gamma, cols);
        result(rows * cols, dx, [&](Out out) {
            cpu_->norm_backward(rows, cols, {cpu_elements(x), cpu_elements(gamma), near(i.saved)},
                                cpu_elements(load(dy, rows * cols)), out, near(d_gamma),
                                near(d_beta));
        });
    }

    void add_bias(Index rows, Index cols, In bias, Out y) override {
        change(rows * cols, y,
               [&](Out out) { cpu_->add_bias(rows, cols, cpu_elements(load(bias, cols)), out); });
    }
    void add_column_sums(Index rows, Index cols, In x, Numbers sums) override {
        cpu_->add_column_sums(rows, cols, cpu_elements(load(x, rows * cols)), near(sums));
    }
    void accumulate(Index n, In b, Out a) override {
        change(n, a, [&](Out out) { cpu_->accumulate(n, cpu_elements(load(b, n)), out); });
    }
    void bias_residual(Index rows, Index cols, In x, In bias, In residual, Out y) override {
        result(rows * cols, y, [&](Out out) {
            cpu_->bias_residual(rows, cols, cpu_elements(load(x, rows * cols)),
                                cpu_elements(load(bias, cols)),
                                cpu_elements(load(residual, rows * cols)), out);
        });
    }
    void gelu_forward(Index n, In x, Out y) override {
        result(n, y, [&](Out out) { cpu_->gelu_forward(n, cpu_elements(load(x, n)), out); });
    }
    void gelu_backward(Index n, In x, In dy, Out dx) override {
        result(n, dx, [&](Out out) {
            cpu_->gelu_backward(n, cpu_elements(load(x, n)), cpu_elements(load(dy, n)), out);
        });
    }

    void to_heads(const HeadsShape& s, In rows, Out heads) override {
        result(heads_size(s.of), heads, [&](Out out) {
            cpu_->to_heads(s, cpu_elements(load(rows, s.parts * heads_size(s.of))), out);
        });
    }
    void to_rows(const HeadsShape& s, In heads, Out rows) override {
        change(s.parts * heads_size(s.of), rows, [&](Out out) {
            cpu_->to_rows(s, cpu_elements(load(heads, heads_size(s.of))), out);
        });
    }
    void attention_forward(const AttentionShape& s, const AttentionTensors& t) override {
        NearAttention n(s, t);
        cpu_->attention_forward(s, n.tensors());
        store(n.out, t.out);
    }
    void attention_backward(const AttentionShape& s, const AttentionTensors& t, In d_out, Out dq,
                            Out dk, Out dv) override {
        NearAttention n(s, t);
        std::vector<float> q(n.q.size()), k(q.size()), v(q.size());
        cpu_->attention_backward(s, n.tensors(), cpu_elements(load(d_out, heads_size(s))),
                                 cpu_elements(q), cpu_elements(k), cpu_elements(v));
        store(q, dq);
        store(k, dk);
        store(v, dv);
    }

    void gather_rows(const LogitsShape& s, Index hidden, Tokens ids, In table, Out out) override {
        result(s.tokens * hidden, out, [&](Out y) {
            cpu_->gather_rows(s, hidden, near(ids), cpu_elements(load(table, s.width * hidden)), y);
        });
    }
    void scatter_rows(const LogitsShape& s, Index hidden, Tokens ids, In d_out,
                      Numbers d_table) override {
        cpu_->scatter_rows(s, hidden, near(ids), cpu_elements(load(d_out, s.tokens * hidden)),
                           near(d_table));
    }

    void top_and_target(const LogitsShape& s, In logits, Tokens labels, Numbers top,
                        Numbers target) override {
        cpu_->top_and_target(s, cpu_elements(load(logits, s.tokens * s.width)), near(labels),
                             near(top), near(target));
    }
    /// The logits stay as they are.
    void sum_exponentials(const LogitsShape& s, Out logits, ConstNumbers top,
                          Numbers sums) override {
        std::vector<float> values = load(logits, s.tokens * s.width);
        cpu_->sum_exponentials(s, cpu_elements(values), near(top), near(sums));
    }
    void logits_gradient(const LogitsShape& s, Out logits, Tokens labels, ConstNumbers top,
                         ConstNumbers sums, float scale) override {
        std::vector<float> again(at(s.tokens));
        change(s.tokens * s.width, logits, [&](Out x) {
            cpu_->sum_exponentials(s, x, near(top), cpu_numbers(again));
            cpu_->logits_gradient(s, x, near(labels), near(top), near(sums), scale);
        });
    }

    void add_losses(Index tokens, ConstNumbers top, ConstNumbers target, ConstNumbers sums,
                    Sum sum) override {
        cpu_->add_losses(tokens, near(top), near(target), near(sums), near(sum));
    }
    void add_squares(Index n, ConstNumbers x, Sum sum) override {
        cpu_->add_squares(n, near(x), near(sum));
    }
    void scale(Index n, float factor, Numbers x) override { cpu_->scale(n, factor, near(x)); }
    void adamw(const AdamW& adam, Index n, Numbers masters, ConstNumbers gradient, Numbers first,
               Numbers second, Out weights) override {
        const float* const p = flip(masters.address());
        cpu_->adamw(adam, n, near(masters), near(gradient), near(first), near(second), {});
        store({p, p + n}, weights);
    }

  private:
    std::unique_ptr<Device> cpu_;
};

}  // namespace
}  // namespace arena::train

using namespace arena::train;

const char* const arena_train_module_version = module_version;
std::unique_ptr<Device> arena_train_open_device(int threads, Comm&) {
    arena::cpu::set_gemm_threads(threads);
    return std::make_unique<EmulatedDevice>(threads);
}

// The same file passes for CUDA's driver, where it is found as libcuda.so.1.
extern "C" int cuInit(unsigned) { return 0; }
extern "C" int cuDeviceGetCount(int* count) {
    const char* gpus = std::getenv("ARENA_EMULATED_GPUS");
    *count = gpus != nullptr ? std::atoi(gpus) : 8;
    return 0;
}
