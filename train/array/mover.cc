// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/array/mover.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace arena::train {
namespace {

void carry_out(Device& device, const StateMover::Copy& copy) {
    if (copy.way == StateMover::Way::in)
        device.copy_in(copy.host, copy.bytes, copy.device);
    else
        device.copy_out(copy.device, copy.bytes, copy.host);
}

class WaitingMover final : public StateMover {
  public:
    explicit WaitingMover(Device& device) : device_(device) {}
    Ticket begin(const Copy& copy) override {
        carry_out(device_, copy);
        return ++last_;
    }
    [[nodiscard]] bool is_done(Ticket) const override { return true; }
    void wait(Ticket) override {}
    void forget(void*) override {}

  private:
    Device& device_;
    Ticket last_ = 0;
};

/// How long the rank's thread waits until it looks after the other ranks.
constexpr std::chrono::milliseconds patience{100};

class ThreadMover final : public StateMover {
  public:
    /// No lane: the device's memory is the host's, and what it was told to compute is computed.
    ThreadMover(Device& device, std::unique_ptr<CopyLane> lane, std::size_t most)
        : device_(device),
          lane_(std::move(lane)),
          ring_(most),
          thread_([this](const std::stop_token& stop) { run(stop); }) {}

    Ticket begin(const Copy& copy) override {
        if (lane_ && known_.insert(copy.host).second) lane_->pin(copy.host, copy.bytes);
        std::unique_lock lock(mutex_);
        await(lock, [&] { return begun_ - done_ < ring_.size(); });
        const std::size_t place = begun_ % ring_.size();
        ring_[place] = copy;
        if (lane_) lane_->mark(place);
        begun_ += 1;
        changed_.notify_all();
        return begun_;
    }
    [[nodiscard]] bool is_done(Ticket ticket) const override { return done_ >= ticket; }
    void wait(Ticket ticket) override {
        std::unique_lock lock(mutex_);
        await(lock, [&] { return done_ >= ticket; });
    }

    void forget(void* host) override {
        if (known_.erase(host) != 0) lane_->unpin(host);
    }

  private:
    template <typename Reached>
    void await(std::unique_lock<std::mutex>& lock, Reached reached) {
        using Clock = std::chrono::steady_clock;
        const auto start = Clock::now();
        while (!changed_.wait_for(lock, patience, [&] { return failure_ || reached(); }))
            if (lane_)
                lane_->look_after_others(
                    std::chrono::duration<double>(Clock::now() - start).count());
        if (failure_) std::rethrow_exception(failure_);
    }

    void move(std::size_t place, const Copy& copy, const std::stop_token& stop) {
        if (!lane_)
            carry_out(device_, copy);
        else if (copy.way == Way::in)
            lane_->copy_in(place, copy.host, copy.bytes, copy.device, stop);
        else
            lane_->copy_out(place, copy.device, copy.bytes, copy.host, stop);
    }

    void run(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [&] { return begun_ > done_; })) {
            const std::size_t place = done_ % ring_.size();
            const Copy copy = ring_[place];
            lock.unlock();
            std::exception_ptr failure;
            try {
                move(place, copy, stop);
            } catch (...) {
                failure = std::current_exception();
            }
            lock.lock();
            failure_ = failure;
            if (!failure_) done_ += 1;
            changed_.notify_all();
            if (failure_ || stop.stop_requested()) return;
        }
    }

    Device& device_;
    std::unique_ptr<CopyLane> lane_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::vector<Copy> ring_;
    std::set<void*> known_;  ///< of the host's memory, by the lane
    Ticket begun_ = 0;
    std::atomic<Ticket> done_ = 0;
    std::exception_ptr failure_;
    std::jthread thread_;  ///< last: it uses all of the above
};

}  // namespace

std::unique_ptr<StateMover> make_waiting_mover(Device& device) {
    return std::make_unique<WaitingMover>(device);
}

std::unique_ptr<StateMover> make_mover(Device& device, std::size_t most) {
    std::unique_ptr<CopyLane> lane = device.copy_lane(most);
    if (!lane && !device.is_host()) return make_waiting_mover(device);
    return make_mover(device, std::move(lane), most);
}

std::unique_ptr<StateMover> make_mover(Device& device, std::unique_ptr<CopyLane> lane,
                                       std::size_t most) {
    return std::make_unique<ThreadMover>(device, std::move(lane), most);
}

}  // namespace arena::train
