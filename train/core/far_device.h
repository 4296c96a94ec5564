// SPDX-License-Identifier: GPL-2.0-or-later
// A device with memory of its own that computes in bf16 and keeps weights' gradients, masters,
// moments and statistics in fp32. Two implementations of the same declarations are linked in turn:
// a CUDA GPU (cuda_device.cc, nccl_group.cc) and, for tests, one that is emulated on the host
// (tests/train/emulated_device.cc), so that all that is above them runs where there is no GPU.
// Members are CpuDevice's; a call may return before it is done, in the order of calls. Errors are
// std::runtime_error.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "train/comm/comm.h"
#include "train/core/far.h"
#include "train/cpu/cpu_device.h"

namespace arena::train {

using Element = Bf16;
template <typename T>
using Array = FarArray<T>;
template <typename T>
using Pointer = Far<T>;
template <typename T>
using Span = FarSpan<T>;

/// A handle: copies mean the same device.
class FarDevice {
  public:
    /// Elements: cuBLASLt takes it that matrices begin at multiples of 256 bytes.
    static constexpr Index alignment = 128;
    struct State;
    /// "NVIDIA H100 80GB HBM3", or "emulated".
    [[nodiscard]] std::string name() const;
    explicit FarDevice(std::shared_ptr<State> state) : state_(std::move(state)) {}
    using In = Far<const Bf16>;
    using Out = Far<Bf16>;
    using Numbers = Far<float>;
    using ConstNumbers = Far<const float>;
    using Ids = FarSpan<const std::int32_t>;

    void multiply(Layout, Index m, Index n, Index k, In a, In b, Out c) const;
    void multiply_add(Layout, Index m, Index n, Index k, In a, In b, Numbers c) const;

    void norm_forward(Index rows, Index cols, In x, In gamma, In beta, Out y, Numbers saved) const;
    struct NormScratch {
        NormScratch(Index, const FarDevice&) {}
    };
    void norm_backward(Index rows, Index cols, In x, In gamma, ConstNumbers saved, In dy, Out dx,
                       Numbers d_gamma, Numbers d_beta, NormScratch&) const;

    void add_bias(Index rows, Index cols, In bias, Out y) const;
    void add_column_sums(Index rows, Index cols, In x, Numbers sums) const;
    void accumulate(Index n, In b, Out a) const;
    void bias_residual(Index rows, Index cols, In x, In bias, In residual, Out y) const;
    void gelu_forward(Index n, In x, Out y) const;
    void gelu_backward(Index n, In x, In dy, Out dx) const;

    void to_heads(const HeadsShape&, In rows, Out heads) const;
    void to_rows(const HeadsShape&, In heads, Out rows) const;
    struct AttentionTensors {
        In q, k, v;
        Out out;
        Numbers lse;
    };
    void attention_forward(const AttentionShape&, const AttentionTensors&) const;
    void attention_backward(const AttentionShape&, const AttentionTensors&, In d_out, Out dq,
                            Out dk, Out dv) const;

    void gather_rows(const LogitsShape&, Index hidden, Ids ids, In table, Out out) const;
    void scatter_rows(const LogitsShape&, Index hidden, Ids ids, In d_out, Numbers d_table) const;

    void top_and_target(const LogitsShape&, In logits, Ids labels, Numbers top,
                        Numbers target) const;
    void sum_exponentials(const LogitsShape&, Out logits, ConstNumbers top, Numbers sums) const;
    void logits_gradient(const LogitsShape&, Out logits, Ids labels, ConstNumbers top,
                         ConstNumbers sums, float scale) const;

    struct Sum {
        FarArray<double> value{1};
    };
    void clear(Sum&) const;
    double value(const Sum&) const;
    void add_losses(Index tokens, ConstNumbers top, ConstNumbers target, ConstNumbers sums,
                    Sum&) const;
    void add_squares(Index n, ConstNumbers x, Sum&) const;

    void scale(Index n, float factor, Numbers x) const;
    void fill_zero(FarSpan<float>) const;
    /// `weights`: the masters in bf16, written too.
    void adamw(const AdamW&, Index n, Numbers masters, ConstNumbers gradient, Numbers first,
               Numbers second, Out weights) const;

    /// Copies between host and device; they wait until they are done.
    using TokenStorage = FarArray<std::int32_t>;
    Ids upload(const std::vector<std::int32_t>& tokens, TokenStorage&) const;
    void upload(std::span<const float> host, Numbers to) const;
    void upload(std::span<const float> host, Out to) const;
    void download(ConstNumbers from, std::span<float> host) const;
    void wait() const;

    [[nodiscard]] State& state() const { return *state_; }

  private:
    void copy_in(const void* host, std::size_t bytes, void* to) const;
    std::shared_ptr<State> state_;
};
using Device = FarDevice;

/// How the ranks of a group exchange what lies on their devices. Contracts are Comm's; sends and
/// receives only between neighbours that DeviceGroup::connect() named.
class FarGroup {
  public:
    FarGroup() = default;
    FarGroup(const FarGroup&) = delete;
    FarGroup& operator=(const FarGroup&) = delete;
    virtual ~FarGroup() = default;
    virtual void all_reduce_sum(FarSpan<Bf16>) = 0;
    virtual void all_reduce_sum(FarSpan<float>) = 0;
    virtual void all_reduce_max(FarSpan<float>) = 0;
    virtual void reduce_scatter(FarSpan<const float> whole, FarSpan<float> part) = 0;
    virtual void all_gather(FarSpan<const Bf16> part, FarSpan<Bf16> whole) = 0;
    virtual void send(FarSpan<const Bf16> values, int to) = 0;
    virtual void receive(FarSpan<Bf16> values, int from) = 0;
    virtual void flush() = 0;
    virtual void connect(const RankLayout&, const Place&) = 0;
};
using Group = FarGroup;

/// Collective over the Comm, which outlives it.
std::unique_ptr<FarGroup> make_group(Comm&, const FarDevice&);

class DeviceGroup {
  public:
    DeviceGroup(Comm& comm, const FarDevice& device) : group_(make_group(comm, device)) {}
    void connect(const RankLayout& layout, const Place& place) { group_->connect(layout, place); }
    operator Group&() { return *group_; }
    Group* operator->() { return group_.get(); }

  private:
    std::unique_ptr<FarGroup> group_;
};

/// Of one rank, without a way between ranks: every sum is its own.
std::unique_ptr<FarGroup> make_lone_group();

/// The device of this rank, for its thread. `threads`: of the emulation.
FarDevice make_device(int threads, Comm& world);

}  // namespace arena::train
