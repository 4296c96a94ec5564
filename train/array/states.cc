// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/array/states.h"

#include <algorithm>
#include <chrono>

namespace arena::train {
namespace {

/// For each buffer: what is written back and what is fetched, with something to spare.
constexpr std::size_t copies_of_switch = 8;

}  // namespace

DeviceState::DeviceState(Device& device, std::size_t size)
    : masters(device, size),
      first(device, size),
      second(device, size),
      weights(Array<Element>::of(device, {masters.data().address(), size})) {}

DeviceState::DeviceState(Device& device, std::span<float> w, std::span<float> m, std::span<float> v)
    : masters(Array<float>::of(device, w)),
      first(Array<float>::of(device, m)),
      second(Array<float>::of(device, v)),
      weights(Array<Element>::of(device, w)) {}

HomeState::HomeState(const GptShape& shape, const TrainPlan& plan, const Place& place,
                     Device& device)
    : parameters(shape, plan.layout, place, plan.layers(place.stage), device.alignment()),
      first(parameters.weights().size()),
      second(first.size()),
      elements(device.is_host() ? 0 : first.size()) {
    if (device.is_host()) in_place.emplace(device, parameters.weights(), first, second);
}

std::vector<float> HomeState::gather(Moment which) {
    return which == Moment::first ? first : second;
}

void HomeState::set(Moment which, std::span<const float> all) {
    std::ranges::copy(all, (which == Moment::first ? first : second).begin());
}

void HomeState::refresh() {
    if (!elements.empty()) std::ranges::transform(parameters.weights(), elements.begin(), to_bf16);
}

std::size_t HomeState::bytes() const {
    return 3 * first.size() * sizeof(float) + elements.size() * sizeof(Bf16);
}

StateBuffers::StateBuffers(Device& device, std::size_t size, Index buffers,
                           std::unique_ptr<StateMover> mover)
    : device_(device), mover_(std::move(mover)) {
    buffers_.reserve(at(buffers));  // uses point into it
    for (Index i = 0; i < buffers; ++i) buffers_.push_back({.state = DeviceState(device, size)});
    if (!mover_ && buffers > 0) mover_ = make_mover(device, copies_of_switch * at(buffers));
}

void StateBuffers::plan(std::vector<Use> uses) {
    uses_ = std::move(uses);
    prepared_.assign(uses_.size(), {});
    next_ = ready_ = 0;
    prepare();
}

/// As far ahead as there is room: a buffer that a prepared use waits for is nobody else's.
void StateBuffers::prepare() {
    if (buffers_.empty()) return;
    for (; ready_ < uses_.size(); ++ready_) {
        const Use& use = uses_[ready_];
        Buffer* buffer = holder(use.state);
        if (buffer == nullptr) {
            buffer = find_room();
            if (buffer == nullptr) return;
            if (buffer->changed) write_back(*buffer);
            buffer->owner = use.state;
            fetch_weights(*buffer);
        }
        if (use.backward && !buffer->has_moments) fetch_moments(*buffer);
        buffer->pins += 1;
        prepared_[ready_] = {buffer, use.backward ? buffer->moments : buffer->weights};
    }
}

StateBuffers::Buffer* StateBuffers::holder(const HomeState* state) {
    const auto found = std::ranges::find(buffers_, state, &Buffer::owner);
    return found == buffers_.end() ? nullptr : &*found;
}

/// One that nobody uses, else the one whose owner is not needed for longest.
StateBuffers::Buffer* StateBuffers::find_room() {
    Buffer* best = nullptr;
    std::size_t latest = 0;
    for (Buffer& buffer : buffers_) {
        if (buffer.pins > 0) continue;
        if (buffer.owner == nullptr) return &buffer;
        const std::size_t next = next_use(buffer.owner);
        if (best != nullptr && next <= latest) continue;
        best = &buffer;
        latest = next;
    }
    return best;
}

std::size_t StateBuffers::next_use(const HomeState* state) const {
    std::size_t i = ready_;
    while (i < uses_.size() && uses_[i].state != state) ++i;
    return i;
}

template <typename T>
StateMover::Ticket StateBuffers::move(StateMover::Way way, const Array<T>& array, void* host) {
    last_ = mover_->begin({way, static_cast<void*>(array.data().address()), host, array.bytes()});
    return last_;
}

void StateBuffers::fetch_weights(Buffer& buffer) {
    HomeState& home = *buffer.owner;
    buffer.has_moments = false;
    buffer.weights =
        device_.is_host()
            ? move(StateMover::Way::in, buffer.state.masters, home.parameters.weights().data())
            : move(StateMover::Way::in, buffer.state.weights, home.elements.data());
}

void StateBuffers::fetch_moments(Buffer& buffer) {
    HomeState& home = *buffer.owner;
    if (!device_.is_host())
        move(StateMover::Way::in, buffer.state.masters, home.parameters.weights().data());
    move(StateMover::Way::in, buffer.state.first, home.first.data());
    buffer.moments = move(StateMover::Way::in, buffer.state.second, home.second.data());
    buffer.has_moments = true;
}

StateMover::Ticket StateBuffers::write_back(Buffer& buffer) {
    HomeState& home = *buffer.owner;
    move(StateMover::Way::out, buffer.state.masters, home.parameters.weights().data());
    move(StateMover::Way::out, buffer.state.first, home.first.data());
    if (!device_.is_host()) move(StateMover::Way::out, buffer.state.weights, home.elements.data());
    buffer.changed = false;
    return move(StateMover::Way::out, buffer.state.second, home.second.data());
}

DeviceState& StateBuffers::acquire() {
    waited_s_ = 0;
    if (buffers_.empty()) return *uses_[next_].state->in_place;
    const Prepared& use = prepared_[next_];
    if (!mover_->is_done(use.ready)) {
        const auto start = std::chrono::steady_clock::now();
        mover_->wait(use.ready);
        waited_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return use.buffer->state;
}

void StateBuffers::release() {
    const std::size_t use = next_++;
    if (buffers_.empty()) return;
    Buffer& buffer = *prepared_[use].buffer;
    buffer.pins -= 1;
    if (uses_[use].backward) buffer.changed = true;
    prepare();
}

void StateBuffers::settle() {
    for (Buffer& buffer : buffers_)
        if (buffer.changed) write_back(buffer);
    if (mover_) mover_->wait(last_);
}

void StateBuffers::forget(HomeState& state) {
    if (mover_) {
        mover_->wait(last_);
        for (void* host :
             {static_cast<void*>(state.parameters.weights().data()),
              static_cast<void*>(state.first.data()), static_cast<void*>(state.second.data()),
              static_cast<void*>(state.elements.data())})
            mover_->forget(host);
    }
    if (Buffer* const buffer = holder(&state); buffer != nullptr) {
        buffer->owner = nullptr;
        buffer->changed = false;
    }
}

}  // namespace arena::train
