// SPDX-License-Identifier: GPL-2.0-or-later
// From a snapshot to the choice of servers to return, and from the choice to what each job does. A
// job has one allocation and one plan: it is scaled in if it has an offer of its GPU type that fits
// on the nodes that stay, and is preempted else. Of an elastic job as many nodes as its smallest
// offer needs are base, own ones first; what it has beside them it can spare. A job that will have
// ended in time, by what is left of its work, is let run.
#pragma once

#include <vector>

#include "core/decision.h"
#include "policy/loans/reclaim.h"

namespace arena {

struct ReclaimView {
    ReclaimProblem problem;
    std::vector<NodeIndex> nodes;     ///< by server
    std::vector<std::uint32_t> jobs;  ///< by job of the problem: index into Snapshot::jobs
    /// By job of the problem: it ends in time. It counts there as one that can spare all its
    /// servers, so that empty ones go first.
    std::vector<bool> ends;
};

/// Which jobs need not move.
struct EndsInTime {
    double within_s = 0;   ///< from now; 0: none is waited for
    double restart_s = 0;  ///< without progress after a job got its GPUs, at most
};

/// A job that was promised an end (JobState::due_s) weighs more than all others together.
/// Of the lent nodes, ascending, each by the first of its entries, `wanted` are to go back.
/// any_layout: as PolicyOptions has it. Nodes that are returning already are no job's to stay on,
/// unless they are among `lent`.
ReclaimView reclaim_view(const Snapshot&, const Offers&, const std::vector<NodeIndex>& lent,
                         std::size_t wanted, bool any_layout, const EndsInTime& = {});

/// What the jobs on the returned servers do, but for those that end in time: `resize` on nodes of
/// their own, with their fastest offer that fits there, or `preempt`. In the order of the
/// snapshot's jobs.
std::vector<Action> reclaim_moves(const Snapshot&, const Offers&, const ReclaimView&,
                                  const std::vector<ServerIndex>& returned, bool any_layout);

}  // namespace arena
