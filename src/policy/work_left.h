// SPDX-License-Identifier: GPL-2.0-or-later
// What a job has left to do, as far as its user's word goes. Whoever makes snapshots (the scheduler
// plug-in, the simulator) says it by this one rule; problem.cc knows how much an overrun is worth.
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

}  // namespace arena
