// SPDX-License-Identifier: GPL-2.0-or-later
// How many servers inference can lend, or wants back: Aryl's rule with head-room, a forecast from
// what was seen, and hysteresis (lend late, take back at once). Pure: time is an argument.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

namespace arena {

struct LendingRules {
    double tick_s = 300;           ///< between decisions to lend, > 0
    double horizon_s = 900;        ///< that the forecast looks ahead, >= 0
    double headroom_percent = 10;  ///< of the forecast demand that stays idle with inference, >= 0
    std::int64_t headroom_nodes = 2;  ///< the same in servers; the larger of the two counts
    double deadline_s = 300;          ///< for a server to be back once it is asked for, > 0
    int ticks_to_lend = 2;            ///< in a row that a server must be spare, >= 1
};

/// Demand of inference over the last two days, and what it will be at most within a horizon.
class DemandHistory {
  public:
    /// Times ascend; equal ones replace. GPUs >= 0.
    void add(double time_s, double gpus);
    /// What was last said, and the larger of two rises: as much as within the last horizon, and as
    /// much as within the next one a day ago. 0 before anything was said. O(samples).
    [[nodiscard]] double peak(double horizon_s) const;

  private:
    [[nodiscard]] double at(double time_s) const;
    [[nodiscard]] double most_between(double from_s, double to_s) const;
    std::deque<std::pair<double, double>> samples_;  ///< (time, GPUs), each until the next
    double now_s_ = 0;                               ///< when something was said last
};

/// Servers of one GPU type that belong to inference.
struct LendingPool {
    std::int64_t servers = 0, gpus_per_server = 1;
    std::int64_t lent = 0;  ///< that nobody has asked back yet
    double peak_gpus = 0;   ///< forecast demand
};

struct LendingStep {
    std::int64_t lend = 0, reclaim = 0;  ///< servers; at most one is above 0
    bool operator==(const LendingStep&) const = default;
};

/// Servers that inference can do without: floor((all GPUs - peak - head-room) / GPUs of a server),
/// at least 0.
std::int64_t spare_servers(const LendingPool&, const LendingRules&);

/// Between ticks servers are only taken back; at a tick they are lent where so many have been spare
/// at `ticks_to_lend` ticks in a row.
class Lender {
  public:
    explicit Lender(const LendingRules& rules) : rules_(rules) {}
    LendingStep decide(const LendingPool&, bool is_tick);

  private:
    LendingRules rules_;
    std::deque<std::int64_t> offered_;  ///< what could have been lent, by the last ticks
};

}  // namespace arena
