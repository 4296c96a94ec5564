// SPDX-License-Identifier: GPL-2.0-or-later
// What the scheduler says of itself, as JSON documents for the socket: `arena explain`, `arena
// stats`, `arena queue`.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "plugin/sched/history/histogram.h"
#include "plugin/sched/round/books.h"

namespace arena {

constexpr std::array<std::string_view, 6> round_stages = {"survey", "collect", "plan",
                                                          "decide", "apply",   "forecast"};
constexpr std::array<double, 9> round_bounds = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};
constexpr std::array<double, 11> ratio_bounds = {0.5,  0.67, 0.8, 0.9, 0.95, 1.05,
                                                 1.11, 1.25, 1.5, 2,   4};

/// Counters of the life of this plug-in; `arena stats` prints them.
struct SchedulerStats {
    Changes changes;
    std::uint64_t rounds = 0, reports = 0, faults = 0;
    std::uint64_t timed_rounds =
        0;  ///< since times were last counted afresh: of max_ms and total_ms
    double last_ms = 0, max_ms = 0, total_ms = 0;
    double survey_ms = 0, collect_ms = 0, plan_ms = 0, decide_ms = 0, apply_ms = 0,
           forecast_ms = 0;  ///< last round
    std::size_t jobs_pending = 0, jobs_running = 0;
    std::size_t jobs_planned = 0;  ///< that the last round decided on
    /// Seconds of the stages of all rounds, in the order of round_stages.
    std::vector<Histogram> stage_seconds = std::vector<Histogram>(6, Histogram(round_bounds));
    /// What running jobs measured of what was estimated, per iteration.
    Histogram estimate_ratio = Histogram(ratio_bounds);

    void add(const Changes& changes);
    void add_time(double round_ms);
};

/// Who asks.
struct Asker {
    bool privileged = true;
    std::uint32_t uid = 0;
    bool sees_others = true;  ///< others' jobs, as squeue shows them
};

/// `snapshot`: of the last round. Empty when the asker may not see the job, or there is none.
std::string explain_json(Books& books, const Snapshot& snapshot, JobId job, const Asker& asker);
/// What is counted, and by whom else.
struct Counted {
    const SchedulerStats& scheduler;
    LockTimes locks;
    SlowReportCounts slow_reports;
    const Snapshot& snapshot;  ///< of the last round
};
std::string stats_json(const Books& books, const Counted& counted, const Asker& asker);
/// `arena slowdown`: what of it the scheduler answers.
enum class SlowdownVerb { list, show, clear, check };
/// `arena loan`: what of it the scheduler answers.
enum class LoanVerb { list, offer, reclaim };
/// What jobs said of slow GPUs and links: of the asker's own, of others' where the asker sees them.
std::string slowdowns_json(const Books& books, const Asker& asker);
/// Of one.
std::string slowdown_json(const Books& books, std::string_view job, const Asker& asker);
/// What is refused, as a document.
std::string error_json(const Error& error);
/// What happened to a job, of its owner's or to an administrator; else a refusal, the same whether
/// there is such a job or not.
std::string history_json(const Books& books, JobId job, const Asker& asker);
/// Everybody's places; of others' jobs that, and their ids where the asker sees others.
std::string queue_json(const Books& books, double time_s, const Asker& asker);

}  // namespace arena
