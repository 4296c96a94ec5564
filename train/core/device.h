// SPDX-License-Identifier: GPL-2.0-or-later
// What the layers are computed with: a CPU (cpu_device.h), a GPU (the module of train/cuda), for
// tests one that is emulated. Weights and activations are elements of the device's own type,
// gradients of weights, statistics, masters and moments are fp32. Matrices are row-major and dense.
// Calls come from the thread of one rank; one may return before it is done, in the order of calls.
// Errors are std::runtime_error.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "profiler/cpu/cpu_kernels.h"
#include "train/comm/comm.h"
#include "train/core/device_memory.h"

namespace arena::train {

using Layout = cpu::Layout;

/// [samples, heads, seq, head_dim], causal; every head has its own key and value.
struct AttentionShape {
    Index samples = 1, heads = 1, seq = 1, head_dim = 1;
};
/// [samples, seq, parts, heads, head_dim], of which one part is taken.
struct HeadsShape {
    AttentionShape of;
    Index part = 0, parts = 1;
};
/// Labels of a vocabulary of which this shard has the rows from `first` on, `width` of them.
struct LogitsShape {
    Index tokens = 0, width = 0, first = 0;
};
/// One AdamW step; `step` counts from 1.
using AdamW = cpu::AdamW;

using Tokens = Span<const std::int32_t>;

/// How the ranks of a group exchange what lies on their devices. Contracts are Comm's.
class Group {
  public:
    Group() = default;
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    virtual ~Group() = default;
    virtual void all_reduce_sum(Span<Element>) = 0;
    virtual void all_reduce_sum(Span<float>) = 0;
    virtual void all_reduce_max(Span<float>) = 0;
    virtual void reduce_scatter(Span<const float> whole, Span<float> part) = 0;
    virtual void all_gather(Span<const Element> part, Span<Element> whole) = 0;
    virtual void send(Span<const Element>, int to) = 0;
    virtual void receive(Span<Element>, int from) = 0;
    virtual void flush() = 0;
    /// Between any two of the group; waits on both. After an all_reduce_sum() of all.
    virtual void transfer(Span<Element>, int from, int to) = 0;
    /// Before send() and receive(), which go between neighbouring stages alone; collective.
    virtual void connect(const RankLayout&, const Place&) = 0;
};

/// Copies beside what a device computes, of its arrays from and to the host. copy_in() and
/// copy_out() are called by another thread than the rank's, all else by the rank's.
class CopyLane {
  public:
    CopyLane() = default;
    CopyLane(const CopyLane&) = delete;
    CopyLane& operator=(const CopyLane&) = delete;
    virtual ~CopyLane() = default;
    /// Copies told of mark i see all that the device was given until now.
    virtual void mark(std::size_t i) = 0;
    /// Copies from and to this memory go at full speed, where the system allows it, until unpin()
    /// or the lane's end; one of the two comes before it is freed.
    virtual void pin(void* host, std::size_t bytes) = 0;
    virtual void unpin(void* host) = 0;
    /// While the rank's thread waits for a copy, `waited_s` by now: throws where another rank is
    /// lost.
    virtual void look_after_others(double waited_s) = 0;
    /// Return when the copy is done, or, having done nothing, where `stop` is asked for before the
    /// device has come to mark i.
    virtual void copy_in(std::size_t i, const void* host, std::size_t bytes, void* to,
                         const std::stop_token& stop) = 0;
    virtual void copy_out(std::size_t i, const void* from, std::size_t bytes, void* host,
                          const std::stop_token& stop) = 0;
};

/// One method for each operation of a GPT's step, so that a device is one class.
class Device {
  public:
    using In = Pointer<const Element>;
    using Out = Pointer<Element>;
    using Numbers = Pointer<float>;
    using ConstNumbers = Pointer<const float>;
    using Sum = Pointer<double>;

    /// host: elements are float, and the host may touch them. own: they are Bf16, and it may not.
    enum class Memory { host, own };
    explicit Device(Memory memory) : memory_(memory) {}
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    virtual ~Device() = default;
    /// "cpu", "NVIDIA H100 80GB HBM3".
    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] bool is_host() const { return memory_ == Memory::host; }
    /// Tensors begin at multiples of so many elements of the flat arrays: cuBLASLt takes it that
    /// matrices begin at multiples of 256 bytes.
    [[nodiscard]] Index alignment() const { return is_host() ? 1 : 128; }
    template <typename T>
    [[nodiscard]] std::size_t width_of() const {
        if constexpr (!std::is_same_v<T, Element>)
            return sizeof(T);
        else
            return is_host() ? sizeof(float) : sizeof(Bf16);
    }
    /// A product that shows how fast it computes, in a fraction of a second and at full load.
    struct Trial {
        Index side = 256;           ///< rows and columns of the matrices
        bool on_processors = true;  ///< the machine's, which ranks may share
    };
    [[nodiscard]] virtual Trial trial() const { return {}; }
    /// Until all calls are done.
    virtual void wait() {}
    /// Mark number i in the order of calls; what lies between two of them, once all is done.
    virtual void mark(std::size_t i) {
        if (marks_.size() <= i) marks_.resize(i + 1);
        marks_[i] = std::chrono::steady_clock::now();
    }
    virtual double seconds_between(std::size_t begin, std::size_t end) {
        return std::chrono::duration<double>(marks_[end] - marks_[begin]).count();
    }
    /// The group of a Comm, which outlives it, as this device does; collective.
    virtual std::unique_ptr<Group> group(Comm&) = 0;

    /// Zeros. Throws where there is not enough.
    virtual void* allocate(std::size_t bytes) = 0;
    virtual void release(void*) noexcept = 0;
    virtual void clear(void*, std::size_t bytes) = 0;
    template <typename T>
    void clear(Span<T> x) {
        clear(x.data().address(), x.size() * sizeof(T));
    }
    /// Copies between host and device; they wait until they are done.
    virtual void copy_in(const void* host, std::size_t bytes, void* to) = 0;
    virtual void copy_out(const void* from, std::size_t bytes, void* host) = 0;
    /// With marks 0 to `marks` - 1; null where copies can only wait in the rank's thread. The
    /// device outlives it.
    virtual std::unique_ptr<CopyLane> copy_lane(std::size_t marks) {
        (void)marks;
        return nullptr;
    }
    template <typename T>
    void upload(std::span<const T> host, Pointer<T> to) {
        copy_in(host.data(), host.size_bytes(), to.address());
    }
    void upload(std::span<const float> host, Out to) {
        if (is_host()) return copy_in(host.data(), host.size_bytes(), to.address());
        std::vector<Bf16> rounded(host.size());
        std::ranges::transform(host, rounded.begin(), to_bf16);
        copy_in(rounded.data(), rounded.size() * sizeof(Bf16), to.address());
    }
    void download(ConstNumbers from, std::span<float> host) {
        copy_out(from.address(), host.size_bytes(), host.data());
    }
    double value(Sum sum) {
        double value = 0;
        copy_out(sum.address(), sizeof value, &value);
        return value;
    }

    /// c = a b, by layout.
    virtual void multiply(Layout, Index m, Index n, Index k, In a, In b, Out c) = 0;
    /// c += a b, in fp32.
    virtual void multiply_add(Layout, Index m, Index n, Index k, In a, In b, Numbers c) = 0;

    /// LayerNorm of each row; saved: [rows, 2].
    virtual void norm_forward(Index rows, Index cols, In x, In gamma, In beta, Out y,
                              Numbers saved) = 0;
    struct NormInputs {
        In x, gamma;
        ConstNumbers saved;
    };
    /// dx is overwritten; d_gamma and d_beta are added to.
    virtual void norm_backward(Index rows, Index cols, const NormInputs&, In dy, Out dx,
                               Numbers d_gamma, Numbers d_beta) = 0;

    /// y[r, c] += bias[c].
    virtual void add_bias(Index rows, Index cols, In bias, Out y) = 0;
    /// sums[c] += sum over rows of x[r, c], in fp32.
    virtual void add_column_sums(Index rows, Index cols, In x, Numbers sums) = 0;
    /// a[i] += b[i].
    virtual void accumulate(Index n, In b, Out a) = 0;
    /// y = x + bias + residual.
    virtual void bias_residual(Index rows, Index cols, In x, In bias, In residual, Out y) = 0;
    virtual void gelu_forward(Index n, In x, Out y) = 0;
    virtual void gelu_backward(Index n, In x, In dy, Out dx) = 0;

    /// heads [samples, heads, seq, head_dim] from one part of rows, and back.
    virtual void to_heads(const HeadsShape&, In rows, Out heads) = 0;
    virtual void to_rows(const HeadsShape&, In heads, Out rows) = 0;
    struct AttentionTensors {
        In q, k, v;
        Out out;
        Numbers lse;  ///< [samples, heads, seq], what backward needs of the softmax
    };
    virtual void attention_forward(const AttentionShape&, const AttentionTensors&) = 0;
    virtual void attention_backward(const AttentionShape&, const AttentionTensors&, In d_out,
                                    Out dq, Out dk, Out dv) = 0;

    /// out[t] = table[ids[t] - first], 0 where the table has no such row.
    virtual void gather_rows(const LogitsShape&, Index hidden, Tokens ids, In table, Out out) = 0;
    /// d_table[ids[t] - first] += d_out[t], in fp32.
    virtual void scatter_rows(const LogitsShape&, Index hidden, Tokens ids, In d_out,
                              Numbers d_table) = 0;

    /// top[t] = the largest logit; target[t] = that of the label, 0 where it is another shard's.
    virtual void top_and_target(const LogitsShape&, In logits, Tokens labels, Numbers top,
                                Numbers target) = 0;
    /// sums[t] = sum of exp(logit - top[t]). The logits are for logits_gradient() alone then.
    virtual void sum_exponentials(const LogitsShape&, Out logits, ConstNumbers top,
                                  Numbers sums) = 0;
    /// In place after sum_exponentials(): scale * (softmax - label).
    virtual void logits_gradient(const LogitsShape&, Out logits, Tokens labels, ConstNumbers top,
                                 ConstNumbers sums, float scale) = 0;

    /// sum += sum over tokens of log(sums[t]) + top[t] - target[t], in fp64.
    virtual void add_losses(Index tokens, ConstNumbers top, ConstNumbers target, ConstNumbers sums,
                            Sum) = 0;
    /// sum += sum of squares, in fp64.
    virtual void add_squares(Index n, ConstNumbers x, Sum) = 0;

    virtual void scale(Index n, float factor, Numbers x) = 0;
    /// Updates masters and moments by the gradient; `weights`: the masters as elements, written too
    /// (where memory is the host's they are the masters).
    virtual void adamw(const AdamW&, Index n, Numbers masters, ConstNumbers gradient, Numbers first,
                       Numbers second, Out weights) = 0;

  private:
    Memory memory_;
    std::vector<std::chrono::steady_clock::time_point> marks_;
};

/// The device of a rank, for its thread; collective. `threads`: of a CPU.
using DeviceMaker = std::function<std::unique_ptr<Device>(int threads, Comm& world)>;

/// Owns memory of a device, which outlives it, as std::vector does memory; zeros at first.
template <typename T>
class Array {
  public:
    Array() = default;
    Array(Device& device, std::size_t n)
        : device_(&device), size_(n), width_(device.width_of<T>()) {
        if (n > 0) data_ = static_cast<std::byte*>(device.allocate(bytes()));
    }
    /// As long as `host`, and `host` itself where the device's memory is the host's.
    static Array of(Device& device, std::span<float> host) {
        if (!device.is_host()) return {device, host.size()};
        Array view;
        view.data_ = reinterpret_cast<std::byte*>(host.data());
        view.size_ = host.size();
        view.width_ = sizeof(float);
        return view;
    }
    ~Array() {
        if (device_ != nullptr && data_ != nullptr) device_->release(data_);
    }
    Array(Array&& other) noexcept { swap(other); }
    Array& operator=(Array&& other) noexcept {
        Array(std::move(other)).swap(*this);
        return *this;
    }
    [[nodiscard]] Pointer<T> data(Index from = 0) const {
        return Pointer<T>(reinterpret_cast<T*>(data_ + at(from) * width_));
    }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] std::size_t bytes() const { return size_ * width_; }
    [[nodiscard]] Span<T> span() const { return {data(), size_}; }
    [[nodiscard]] Span<T> span(Range part) const { return {data(part.begin), at(part.size())}; }
    void swap(Array& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(width_, other.width_);
    }

  private:
    Device* device_ = nullptr;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0, width_ = 0;
};

}  // namespace arena::train
