// SPDX-License-Identifier: GPL-2.0-or-later
// A queue of thousands of jobs of a few kinds: which of them a round need not look at.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "core/cluster.h"
#include "policy/policy.h"

namespace arena {

/// Queues of no more waiting jobs are looked at whole.
inline constexpr std::size_t long_queue = 1000;

/// By index in snapshot.jobs: waiting jobs that can get no GPU whatever is decided; empty: none. Of
/// jobs of one kind and priority no more can run at once than the cluster has GPUs for the smallest
/// offer, and with objective jct who has less work left is worth more with every offer
/// (Worth::value() falls as work grows, since no restart takes longer than the
/// longest). Those who wait for too long are helped in the order of their age, too. Jobs of unknown
/// work are all kept. Not for queues with jobs whose choice is for life: what these wait for
/// depends on everybody. O(jobs kinds).
std::vector<bool> out_of_reach(const Snapshot&, const Offers&,
                               const std::function<bool(const JobState&)>& starves);

}  // namespace arena
