// SPDX-License-Identifier: GPL-2.0-or-later
// How a job's word about itself gets to slurmctld: `scontrol update Comment=...`, which every node
// can send and slurmctld authenticates; job_submit/arena takes it out of the comment.
#pragma once

#include <string>

#include "base/result.h"
#include "core/cluster.h"

namespace arena::cli {

/// The job that --job names; 0 = the one that this runs in (SLURM_JOB_ID).
Result<JobId> reporting_job(JobId given);
/// "" where there is none.
std::string environment(const char* name);

/// Errors: `usage` refused for good, slurmctld's log says why; `no` too many came before it, send
/// it again later; `environment` slurmctld has not answered, or nothing could be sent: send it
/// again.
Status send_report(JobId job, const std::string& text);

}  // namespace arena::cli
