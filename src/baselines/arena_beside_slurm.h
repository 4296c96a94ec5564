// SPDX-License-Identifier: GPL-2.0-or-later
// Policy arena as sched/arena runs it: beside Slurm's own backfill, which starts the ordinary jobs
// (JobState::ordinary). The other baselines know no such jobs.
#pragma once

#include "core/decision.h"
#include "policy/policy.h"

namespace arena {

/// What backfill starts of the ordinary jobs, then what policy arena decides on what that leaves:
/// slurmctld looks for jobs to start whenever one ends, before Arena's next round. Backfill keeps
/// Slurm's order over all waiting jobs: one of Arena's has its reservation, by its request.
Decision decide_arena_beside_slurm(const Snapshot&, const Offers&, const PolicyOptions&);

}  // namespace arena
