// SPDX-License-Identifier: GPL-2.0-or-later
// Slurm's order of jobs, in steps of priority: within a step jobs count as equal and stand by
// submission.
#pragma once

#include <cstdint>
#include <vector>

#include "core/cluster.h"

namespace arena {

struct SlurmOrder {
    std::vector<std::uint32_t> step;   ///< by index in the snapshot's jobs; 0 is the highest
    std::vector<std::uint32_t> place;  ///< the same: 0 stands first of all, running or waiting
    std::uint32_t steps = 0;
};

/// A step begins at the highest priority that is in none yet, and reaches down by `share` (0 to 1)
/// of the highest priority present in its tier, as far as that is above 0; jobs of another tier are
/// never in it. Within it: submission, then as they stand in the snapshot: tasks of an array have
/// ids in another order than their numbers. Ordinary jobs make no steps: each stands behind all
/// that have a higher priority, or the same and came earlier. O(jobs (log jobs + ordinary jobs)).
SlurmOrder order_of(const Snapshot&, double share);

}  // namespace arena
