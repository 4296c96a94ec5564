// SPDX-License-Identifier: GPL-2.0-or-later
// What one question to the planner may cost. A model is a stranger's file: a few kilobytes can ask
// for hours of search. Loops poll the budget; when it is spent they give back the best found so far
// and say that they did. Seconds are CPU time of the calling thread, so that a busy machine finds
// the plans that an idle one finds; polls are steps, the same on every machine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace arena {

/// More than anything costs.
inline constexpr double infinity = std::numeric_limits<double>::infinity();

class PlanBudget {
  public:
    struct Limits {
        double seconds = infinity;
        std::int64_t polls = std::numeric_limits<std::int64_t>::max();
        std::size_t bytes = std::numeric_limits<std::size_t>::max();  ///< of each kind of table
        const std::atomic<bool>* stop = nullptr;  ///< set by another thread: stop in milliseconds
    };
    /// Without limits.
    PlanBudget() : PlanBudget(Limits{}) {}
    explicit PlanBudget(Limits);
    PlanBudget(const PlanBudget&) = delete;
    PlanBudget& operator=(const PlanBudget&) = delete;

    /// Counts steps of some tens of nanoseconds each; true when the budget, or the slice of it that
    /// is open, is spent. The clock is read every `stride` steps.
    bool poll(std::int64_t steps = 1) {
        to_look_ -= steps;
        return to_look_ < 0 ? look() : is_spent_;
    }
    /// The same as of now, whatever poll() saw last.
    bool look();
    [[nodiscard]] bool is_stopped() const {
        return limits_.stop != nullptr && limits_.stop->load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::int64_t polls() const { return polled_ + looked_ - to_look_; }
    [[nodiscard]] const Limits& limits() const { return limits_; }

    /// A part of what is left, for one of several things to look at: nothing beyond it until the
    /// slice is gone. What it leaves is there for those after it. Slices count from the second half
    /// of the budget on: what needs no more than the first is looked at as if there were none.
    class Slice {
      public:
        /// 1 = all that is left.
        Slice(PlanBudget&, double share);
        ~Slice();
        Slice(const Slice&) = delete;
        Slice& operator=(const Slice&) = delete;

      private:
        PlanBudget& budget_;
        double until_s_;  ///< those of the slice around it
        std::int64_t until_polls_;
    };

  private:
    static constexpr std::int64_t stride = 1024;
    [[nodiscard]] bool has_limits() const;

    Limits limits_;
    double until_s_;            ///< of the thread's CPU clock, of the open slice
    double half_s_;             ///< of that clock
    std::int64_t until_polls_;  ///< of polls()
    std::int64_t polled_ = 0, looked_ = stride, to_look_ = stride;
    bool is_spent_ = false;
};

}  // namespace arena
