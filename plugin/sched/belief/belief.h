// SPDX-License-Identifier: GPL-2.0-or-later
// What is believed of a job's work, and from what: the time limit that Slurm enforces, steps that
// this limit is short enough for, and what the user's last jobs used of what they said. Nothing
// else that a job says gains it a place. Pure.
#pragma once

#include <string>
#include <vector>

#include "core/cluster.h"
#include "plugin/sched/history/past_use.h"
#include "policy/policy.h"
#include "request/request.h"

namespace arena {

struct Belief {
    enum class From { nothing, limit, steps };
    From from = From::nothing;  ///< nothing: nobody ends it
    std::int64_t steps = 0;     ///< that its user says; 0 = none
    double limit_s = 0;         ///< that Slurm enforces; 0 = none
    double needs_s = 0;         ///< the longest limit with which the steps count
    PastUse past = {};
    bool operator==(const Belief&) const = default;
};
std::string_view to_string(Belief::From);

/// Seconds of an iteration by which steps are judged: the slowest offer's, or what job_submit
/// judged by, which a user can have forged, up to least_belief_slack times that: an estimate that
/// became better since does not take the place from a job whose limit Arena itself wrote.
/// `offers`: not empty.
double judged_iteration_s(const Request& request, const std::vector<Offer>& offers);

/// limit_s: of the whole job, 0 = none. `offers`: what it could run with, not empty.
Belief believe(const Request& request, double limit_s, const std::vector<Offer>& offers,
               const PastUse& past, const RestartCost& restart);

/// Sets remaining_iterations and overrun. run_s: since this life began, 0 = it waits; iteration_s:
/// of the plan that it runs, or would have first. What has outlived its user's past is believed
/// without that.
void set_believed_work(JobState& job, const Belief& belief, double run_s, double iteration_s);

/// "12,000 steps, as its limit of 2.0 h enforces; x 0.4: what the last 20 jobs of uid 7 used of
/// theirs"
std::string words_of(const Belief& belief, std::uint32_t uid, const std::string& account);

/// What a job that ended used of what was believed of it, PastUses::least to 1. done: iterations of
/// its earlier lives; run_s: of the last one; iteration_s: of the plan of that.
double used_of(const Belief& belief, double done, double run_s, double iteration_s);

}  // namespace arena
