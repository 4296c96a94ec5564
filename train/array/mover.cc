// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/array/mover.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
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

  private:
    Device& device_;
    Ticket last_ = 0;
};

class ThreadMover final : public StateMover {
  public:
    ThreadMover(Device& device, std::size_t most)
        : device_(device),
          ring_(most),
          thread_([this](const std::stop_token& stop) { run(stop); }) {}

    Ticket begin(const Copy& copy) override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return begun_ - done_ < ring_.size(); });
        ring_[begun_ % ring_.size()] = copy;
        begun_ += 1;
        changed_.notify_all();
        return begun_;
    }
    [[nodiscard]] bool is_done(Ticket ticket) const override { return done_ >= ticket; }
    void wait(Ticket ticket) override {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return done_ >= ticket; });
    }

  private:
    void run(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        while (changed_.wait(lock, stop, [&] { return begun_ > done_; })) {
            const Copy copy = ring_[done_ % ring_.size()];
            lock.unlock();
            carry_out(device_, copy);
            lock.lock();
            done_ += 1;
            changed_.notify_all();
        }
    }

    Device& device_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::vector<Copy> ring_;
    Ticket begun_ = 0;
    std::atomic<Ticket> done_ = 0;
    std::jthread thread_;  ///< last: it uses all of the above
};

}  // namespace

std::unique_ptr<StateMover> make_waiting_mover(Device& device) {
    return std::make_unique<WaitingMover>(device);
}

std::unique_ptr<StateMover> make_mover(Device& device, std::size_t most) {
    if (!device.is_host()) return make_waiting_mover(device);
    return std::make_unique<ThreadMover>(device, most);
}

}  // namespace arena::train
