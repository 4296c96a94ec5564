// SPDX-License-Identifier: GPL-2.0-or-later
// Communication groups whose calls take longer than those of comparable groups: which links are
// worth a benchmark. Waiting is inside the measured time, so this says nothing of GPUs (a slow GPU
// waits least). Source: Greyhound (ATC'25), section on profiling.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace arena::slowdown {

/// Groups of one kind at one stage move the same bytes: they are compared with each other.
struct GroupTime {
    std::string group;
    std::string kind;  ///< dp, tp, pp, ...
    int stage = 0;
    /// Of each member, the sum of the durations of its calls in one period; finite, >= 0.
    std::vector<double> member_s;
};

struct Suspect {
    std::string group;
    double factor = 0;      ///< time over the median of its cluster; 1 of one alone
    bool is_alone = false;  ///< nothing to compare it with
    bool operator==(const Suspect&) const = default;
};

/// Above threshold (> 1) times the median of its cluster, by the slowest member; a group without
/// comparison always. In the order of `groups`. Errors: a time that is no time, no members.
Result<std::vector<Suspect>> find_suspects(std::span<const GroupTime> groups,
                                           double threshold = 1.10);

}  // namespace arena::slowdown
