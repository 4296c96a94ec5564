// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `gavel` (Narayanan et al., OSDI 2020): the count is the user's, the GPU type is the
// policy's. Taken: the objectives and that every job may run on every type. Repaired against the
// Arena artifact's port: a type without a row is no choice (there it had a throughput of -1e9 and
// could be chosen), what was chosen is what runs (no drifting matrix), nobody blocks a type,
// adaptive parallelism counts. Left out: the linear programme with time fractions and its round
// mechanism. A restart per 6-minute round would eat up to a fifth of the time, so each job has one
// type or none, by our own knapsack.
#pragma once

#include "core/decision.h"
#include "policy/policy.h"

namespace arena {

/// Max-sum-throughput: the sum over jobs of the speed relative to the job's best type is greatest.
/// A running job keeps its type unless another one is worth half as much again.
Decision decide_gavel(const Snapshot&, const Offers&, const PolicyOptions&);

/// Least attained service: GPUs go first to jobs that have held the fewest GPU-seconds, in levels
/// that double from one GPU-hour on (so that equals do not take turns); within a level as
/// decide_gavel().
Decision decide_gavel_las(const Snapshot&, const Offers&, const PolicyOptions&);

/// Not published: decide_gavel() on 1 / time to finish, which knows the work left as policy `arena`
/// does.
Decision decide_gavel_informed(const Snapshot&, const Offers&, const PolicyOptions&);

}  // namespace arena
