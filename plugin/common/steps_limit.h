// SPDX-License-Identifier: GPL-2.0-or-later
// The time limit that makes a user's steps more than words: what job_submit/arena gives a job that
// names its steps, and within which the scheduler believes them. Policies read what comes of it as
// JobState::remaining_iterations (policy/work_left.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "policy/policy.h"
#include "policy/work_left.h"

namespace arena {

/// A year, as no limit of a site is longer; it keeps the product of any steps a number of minutes.
inline constexpr std::int64_t most_limit_minutes = 525600;

/// What a job may spend without iterations, whatever its shape, in seconds.
inline double seconds_on_top(const RestartCost& restart) {
    return restart.checkpoint_s + restart.launch_cap_s;
}

/// Minutes, 1 to most_limit_minutes: steps (> 0) of iteration_s (> 0) seconds each,
/// least_belief_slack times over, and on_top_s (>= 0) to start and restart; rounded up.
/// iteration_s: that of the slowest plan that the job may be given, so that no honest job is cut on
/// a slow GPU type.
inline std::int64_t minutes_for_steps(std::int64_t steps, double iteration_s, double on_top_s) {
    const double seconds = static_cast<double>(steps) * iteration_s * least_belief_slack + on_top_s;
    const double minutes = std::clamp(std::ceil(seconds / 60), 1.0, double(most_limit_minutes));
    return static_cast<std::int64_t>(minutes);
}

/// Whether steps count: limit_s (0 = none) is no longer than minutes_for_steps() of them.
inline bool steps_are_enforced(std::int64_t steps, double iteration_s, double on_top_s,
                               double limit_s) {
    if (steps <= 0 || limit_s <= 0) return false;
    const auto said = static_cast<double>(steps);
    const double work_s = said * iteration_s * least_belief_slack;
    const double most_s = 60.0 * double(minutes_for_steps(steps, iteration_s, on_top_s));
    // What is on top does no iterations.
    const double within_s =
        limit_s <= most_s ? std::min(limit_s, work_s) : work_s + limit_s - most_s;
    return believed_iterations(said, iteration_s, within_s, least_belief_slack) == said;
}

}  // namespace arena
