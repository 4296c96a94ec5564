// SPDX-License-Identifier: GPL-2.0-or-later
// How long a rank computes in a part of its step, what it exchanges with others left out: a slow
// rank shows here, while all ranks of a synchronous step take equally long. Groups that are to be
// left out are seen through a TimedGroup. On a GPU it counts the stream's time, not the host's.
#pragma once

#include <chrono>
#include <memory>

#include "train/core/device.h"

namespace arena::train {

/// Of the host's clock, which no one sets.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
inline double now_s() { return seconds_since({}); }

class ComputeClock {
  public:
    /// The device outlives it. Off: costs nothing, and all calls do nothing.
    ComputeClock(Device& device, bool on) : device_(device), on_(on) {}
    void start();
    void pause() { mark(); }
    void resume() { mark(); }
    /// Seconds since start() without pauses; waits for the device. 0 where it is off.
    double stop();
    [[nodiscard]] bool is_on() const { return on_; }

  private:
    void mark() {
        if (is_running_) device_.mark(marks_++);
    }
    Device& device_;
    bool on_, is_running_ = false;
    std::size_t marks_ = 0;  ///< since start(): each second one ends a pause
};

/// The group itself where the clock is off. The clock outlives it.
std::unique_ptr<Group> timed(std::unique_ptr<Group>, ComputeClock&);

}  // namespace arena::train
