// SPDX-License-Identifier: GPL-2.0-or-later
// From a snapshot to the choice of servers to return, and from the choice to what each job does. A
// job has one allocation and one plan: it is scaled in if it has an offer of its GPU type that fits
// on the nodes that stay, and is preempted else. Of an elastic job as many nodes as its smallest
// offer needs are base, own ones first; what it has beside them it can spare.
#pragma once

#include <vector>

#include "core/decision.h"
#include "policy/loans/reclaim.h"

namespace arena {

struct ReclaimView {
    ReclaimProblem problem;
    std::vector<NodeIndex> nodes;     ///< by server
    std::vector<std::uint32_t> jobs;  ///< by job of the problem: index into Snapshot::jobs
};

/// Of the lent nodes, ascending, `wanted` are to go back. any_layout: as PolicyOptions has it.
ReclaimView reclaim_view(const Snapshot&, const Offers&, const std::vector<NodeIndex>& lent,
                         std::size_t wanted, bool any_layout);

/// What the jobs on the returned servers do: `resize` on nodes of their own, with their fastest
/// offer that fits there, or `preempt`. In the order of the snapshot's jobs.
std::vector<Action> reclaim_moves(const Snapshot&, const Offers&, const ReclaimView&,
                                  const std::vector<ServerIndex>& returned, bool any_layout);

}  // namespace arena
