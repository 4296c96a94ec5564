// SPDX-License-Identifier: GPL-2.0-or-later
// How a job's time went, planned against actual, as far as its history tells. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plugin/sched/history/job_history.h"

namespace arena {

/// [from, to] of each run that is over, in seconds since the epoch; of what the history still has.
std::vector<std::pair<double, double>> runs_of(const JobPast& past);

struct JobAccount {
    std::int64_t lives = 0;  ///< runs that are over
    double waited_s = 0;     ///< before the first of them, since it came
    double ran_s = 0;
    /// Between its runs, and saving its state: what moves cost it, with the waits that they made.
    double moved_s = 0;
    bool operator==(const JobAccount&) const = default;
};
JobAccount account_of(const JobPast& past);

/// Of its time after its first start the part in which it ran, and was not told to save its state.
double running_share(const JobAccount& account);

/// "lives=2 waited=130s ran=3600s moved=45s running=0.988": words of its AdminComment.
std::string words_of(const JobAccount& account);

}  // namespace arena
