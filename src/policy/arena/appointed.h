// SPDX-License-Identifier: GPL-2.0-or-later
// Appointed times: when a long job that runs may be moved, in a cluster in which nothing is idle.
// The times of a job follow from when it started and from what it had to do then, so that they stay
// where they are as it runs.
#pragma once

#include <cmath>

#include "policy/arena/arena_rules.h"

namespace arena {

/// Seconds between a job's appointed times, by its work left when it started: the power of two
/// below a share of it; 0 where that is less than a second, or unknown.
inline double appointed_period_s(double left_at_start_s, const ArenaRules& rules) {
    const double wanted_s = rules.period_share * left_at_start_s;
    return wanted_s >= 1 ? std::exp2(std::floor(std::log2(wanted_s))) : 0;
}

/// Whether an appointed time fell within the last window_s, or falls on this moment; the start
/// itself is none. Asked with the time since it was asked before, it says so once for each.
inline bool is_appointed(double since_start_s, double period_s, double window_s) {
    const double last = std::floor(since_start_s / period_s);
    return last >= 1 && last * period_s > since_start_s - window_s;
}

}  // namespace arena
