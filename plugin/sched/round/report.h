// SPDX-License-Identifier: GPL-2.0-or-later
// What the scheduler says of itself, as JSON documents for the socket: `arena explain`, `arena
// stats`, `arena queue`.
#pragma once

#include <string>
#include <string_view>

#include "plugin/sched/round/books.h"

namespace arena {

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

    void add(const Changes& changes);
    void add_time(double round_ms);
};

/// Who asks.
struct Asker {
    bool privileged = true;
    std::uint32_t uid = 0;
    bool sees_others = true;  ///< others' jobs, as squeue shows them
};

/// Empty when the asker may not see the job, or there is none.
std::string explain_json(Books& books, JobId job, const Asker& asker);
/// What is counted, and by whom else.
struct Counted {
    const SchedulerStats& scheduler;
    LockTimes locks;
    SlowReportCounts slow_reports;
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
/// Everybody's places; of others' jobs that, and their ids where the asker sees others.
std::string queue_json(const Books& books, double time_s, const Asker& asker);

}  // namespace arena
