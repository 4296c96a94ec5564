// SPDX-License-Identifier: GPL-2.0-or-later
// What a recorded month was, in the simulator's own numbers, and how well a replay meets it.
#pragma once

#include "sim/metrics.h"
#include "sim/workload.h"

namespace arena::sim {

/// The jobs as they ran, by their recorded starts and run times. Jobs without a recorded start have
/// no place here: the workload must have none. The nodes are not recorded: stays, where they are
/// wanted, are on the fullest that have room, and of jobs for which none had there are none.
Metrics metrics_as_recorded(const Workload&, bool keep_stays);

/// What a run was to those whom Arena moves, and to those whom it does not.
struct Sides {
    double model_jct_s = 0;     ///< mean, of jobs with a model; 0 without any
    double ordinary_jct_s = 0;  ///< mean, of the others
    double ordinary_wait_s = 0;
    double ordinary_later = 0;  ///< share whose JCT is more than 1.1 of that in `other`
};
Sides sides_of(const Workload&, const Metrics& run, const Metrics& other);

/// How far a replay's starts are from the recorded ones.
struct ReplayError {
    std::int64_t jobs = 0;
    double within_s = 0;  ///< what counts as met
    double met = 0;       ///< share of the jobs
    double earlier = 0;   ///< share that the replay starts earlier by more than that: they waited
                          ///< for what a trace does not have
    double later = 0;     ///< share that it starts later
    Spread off_s;         ///< of the differences, without sign
};
/// `replay` kept each job where it first started: its queueing is the wait for that.
ReplayError replay_error(const Workload&, const Metrics& replay, double within_s);

}  // namespace arena::sim
