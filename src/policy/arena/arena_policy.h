// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `arena`: each round gives every job one offer (GPU type x count) or none, so that progress
// per time is greatest at the market price of GPUs; running jobs change only when the change pays.
// Arena's idea (type, count and parallelism decided together for all jobs), on Lagrangian prices,
// not on a queue. Leaves out on purpose: any memory between rounds, and guesses about jobs that
// have not come yet, but for the number that waits for GPUs.
#pragma once

#include "core/decision.h"
#include "policy/arena/arena_rules.h"
#include "policy/policy.h"

namespace arena {

/// Value of an offer, objective jct: (relative speed / shortest time left) ^ 1.25. Relative speed:
/// the shortest time left, with the job's fastest offer, by the time left with this one, a restart
/// included where one is due; and in the divisor nobody has more than a hundred hours left, and
/// everybody two hours more than he has. throughput: speed relative to the job's fastest offer.
/// fairness: the same, times the fourth power of the job's finish-time slow-down so far. All are
/// multiplied by a weight of the job's priority (1 to 4, linear between the lowest and the highest
/// present); a job that waits longer than a week goes first (assignment.h). With options.shares,
/// accounts' values are scaled until those that want more have their share of the GPUs.
///
/// A running job keeps what it has unless another offer, with 25 restarts charged to its time, is
/// worth 1.08 to 1.38 times as much (by how many jobs wait), and as much again for another GPU
/// type; another 25 restarts are charged, from its third start on, to the time that the job kept
/// its GPUs on average so far (its age and two hours, per start), so that nobody is moved often. It
/// makes room for a waiting job only when that one is worth 1.5 times as much. Idle GPUs go to
/// running jobs that they finish by a tenth sooner. Objective jct: while no GPU is idle and few
/// wait, jobs change, or start again, only at appointed times (every power of two below a tenth of
/// what they had left at their start, from that start on: appointed.h), and between them can only
/// be stopped. So restarts pay for themselves and stay few. The numbers: arena_rules.h.
///
/// Objective jct: a job that is not elastic is given what a list schedule of all such jobs, on the
/// GPUs as they will come free, foresees as best for it (foresight.h), or waits for that; beside
/// elastic jobs also what costs at most a twentieth more, for less value. One for which enough GPUs
/// are free, but scattered, waits for the next ones, no longer than was first expected
/// (JobState::patient_until_s); then it takes what it can get.
///
/// A week: times the starts that the job had and one more, at most four; then it gets the best that
/// it could have without all others, and keeps it for an hour, so that more such jobs than GPUs do
/// not only start each other anew.
///
/// The choice is a multiple-choice knapsack per GPU type (knapsack.h), then put on nodes
/// (assignment.h): running jobs make room for what finds none, by moving or stopping, where that is
/// worth more than it costs (displacement.h); else it keeps what it had, or takes its best offer
/// that finds some. Of few jobs on few nodes all ways are searched (exhaustive.h) where that fell
/// short of the knapsack, no job waits beyond its bound and no shares are asked for.
/// options.search_steps bounds the work: fewer steps, coarser prices, still a valid decision.
/// O(steps + nodes + jobs log jobs), and for each job that finds no nodes, of which there are few,
/// the nodes of a type.
Decision decide_arena(const Snapshot&, const Offers&, const PolicyOptions&);
/// With other constants than its own.
Decision decide_arena(const Snapshot&, const Offers&, const PolicyOptions&, const ArenaRules&);

}  // namespace arena
