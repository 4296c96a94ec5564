// SPDX-License-Identifier: GPL-2.0-or-later
// What sched/backfill starts: a list schedule on nodes, in Slurm's order, by time limits. Each job
// that does not start now has its nodes kept for it from when it would; later ones start where they
// end before. decide_backfill(), as published, keeps GPUs for the first job alone, by count: jobs
// that want whole nodes then wait for small ones that came later.
#pragma once

#include <functional>

#include "core/decision.h"
#include "policy/policy.h"

namespace arena {

/// Of sched/backfill: so many waiting jobs are looked at (bf_max_job_test).
inline constexpr std::size_t slurm_looks_at = 500;

/// Each job as its user asked; running jobs end at their limits. O(jobs log jobs), and for each job
/// looked at the nodes of its type.
Decision decide_slurm_backfill(const Snapshot&, const Offers&, const PolicyOptions&);

/// What a waiting job is to it: nothing; one that it starts; or one that others start, for which it
/// keeps nodes where it cannot start yet.
enum class SlurmSees { nothing, job, reservation };

/// Asks what each waiting job is, in Slurm's order.
Decision decide_slurm_backfill(const Snapshot&, const Offers&, const PolicyOptions&,
                               const std::function<SlurmSees(const JobState&)>&);

}  // namespace arena
