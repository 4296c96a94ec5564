// SPDX-License-Identifier: GPL-2.0-or-later
// What a job has left to do, as far as its user's word goes, and how far that word goes. Whoever
// makes snapshots (the scheduler plug-in, the simulator) says it by these rules; problem.cc knows
// how much an overrun is worth.
#pragma once

#include "core/cluster.h"

namespace arena {

/// Sets remaining_iterations and overrun from done_iterations and from what the user said that the
/// job does in all, > 0: the difference. A job that has done all of it and runs on overruns: its
/// user was wrong, nobody knows by how much, and one iteration is left, as 0 would mean that nobody
/// said.
inline void set_work_left(JobState& job, double said_iterations) {
    const double left = said_iterations - job.done_iterations;
    job.overrun = left <= 0;
    job.remaining_iterations = job.overrun ? 1 : left;
}

/// The least slack: an honest user's estimate of an iteration is off by no more than this factor.
inline constexpr double least_belief_slack = 2;

/// The work of a job that policies believe, in iterations: what the user says counts as far as what
/// Slurm enforces lets it. The rule is ours; it takes no history (Tsafrir and others, TPDS 2007,
/// predict run times by that), as a limit that ends the job cannot be lied about.
/// said: iterations that the user says the job does in all, 0 = said nothing; iteration_s: seconds
/// of one as the job was requested, > 0; limit_s: the time limit that Slurm enforces, 0 =
/// unlimited; slack: >= least_belief_slack.
/// A limit of at most said x iteration_s x slack: what is said. A longer one gives the steps no
/// place: limit_s / iteration_s. Unlimited: 0, unknown, as JobState::remaining_iterations has it.
[[nodiscard]] inline double believed_iterations(double said, double iteration_s, double limit_s,
                                                double slack) {
    if (limit_s <= 0) return 0;
    const bool enforced = said > 0 && limit_s <= said * iteration_s * slack;
    return enforced ? said : limit_s / iteration_s;
}

}  // namespace arena
