// SPDX-License-Identifier: GPL-2.0-or-later
// What the plug-ins inside one slurmctld share. They are dlopen()ed apart, but all link
// libarena_slurm.so, of which there is one instance.
#pragma once

#include <string>
#include <vector>

#include "core/cluster.h"
#include "core/observation.h"
#include "reports/slow_report.h"

namespace arena {

/// True while the calling thread runs Arena's own update_job(): job_modify lets it pass untouched.
bool own_call();

/// Sets own_call() for its scope.
class OwnCall {
  public:
    OwnCall();
    ~OwnCall();
    OwnCall(const OwnCall&) = delete;
    OwnCall& operator=(const OwnCall&) = delete;
};

/// job_submit/job_modify -> scheduler: something to look at. Cheap, never blocks.
void request_round();

/// A report that job_modify has checked, with all that it takes to make use of it when the job is
/// gone.
struct LeftReport {
    JobId job = 0;
    std::string record, offer_json;  ///< ARENA_RECORD and ARENA_PLAN of the job as it reported
    IterationReport report;
    std::uint32_t user = 0;  ///< the job's
};
/// job_modify -> scheduler. The latest of each job waits, at most 256, the oldest are dropped: they
/// correct estimates, no more.
void leave_report(LeftReport);
std::vector<LeftReport> take_reports();

/// A report of a slow GPU or link that job_modify has checked.
struct LeftSlowReport {
    JobId job = 0;
    std::uint32_t user = 0;  ///< the job's
    std::int64_t gpus = 0;   ///< that the job has in all
    SlowReport report;
    std::uint32_t voice = 0;  ///< whose word it is: the user's, or 0 of root and SlurmUser
};
/// job_modify -> scheduler. The latest of each event waits; false where 256 others wait already.
bool leave_slow_report(LeftSlowReport);
std::vector<LeftSlowReport> take_slow_reports();

/// What became of the reports of slow GPUs and links that came to job_modify.
struct SlowReportCounts {
    std::uint64_t taken = 0, refused = 0;
    std::uint64_t over_rate = 0;  ///< left out unread: too many in too short a time
};
void count_slow_reports(const SlowReportCounts& more);
SlowReportCounts slow_report_counts();

/// An update of one of Arena's jobs that was taken, or refused and why.
struct LeftUpdate {
    JobId job = 0;
    std::string refused;  ///< "" = it was taken
};
/// job_modify -> scheduler. The latest of each job waits, at most 256, the oldest are dropped.
void leave_update(LeftUpdate);
std::vector<LeftUpdate> take_updates();

/// The scheduler has given this job its next plan, and slurmctld has yet to write that to its disk:
/// nobody is told of it before.
void set_unsaved_plan(JobId, bool is_unsaved);
bool has_unsaved_plan(JobId);

/// The scheduler's side: an eventfd that request_round() makes readable; -1 on failure. Reading it
/// is the scheduler's business.
int open_round_fd();
void close_round_fd();

}  // namespace arena
