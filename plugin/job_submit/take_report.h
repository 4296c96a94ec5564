// SPDX-License-Identifier: GPL-2.0-or-later
// What running jobs say of themselves: updates whose Comment begins with the word of a report. One
// table of words; each has one who parses it, checks it by the job's record and hands it on.
#pragma once

#include <cstdint>

#include "plugin/common/slurm_compat.h"
#include "reports/rate_limit.h"
#include "site/config.h"

namespace arena {

/// ARENA_RECORD of a job; nullptr where it is none of Arena's.
const char* record_of(const job_record_t*);

bool is_report(const job_desc_msg_t* change);

/// Between init and fini.
struct ReportDesk {
    ReportLimit slow;                     ///< of reports of slow GPUs and links
    ReportLimit times{{.job = {20, 5}}};  ///< of iteration times
    ReportLimit asks{{.job = {20, 1}, .user = {100, 0.2}, .all = {1000, 0.02}}};  ///< for plans
    /// Of lines in the log about those that a stranger sends.
    TokenBucket lines{{10, 1}, 0};
};

/// Takes a report out of the comment that it came as: it goes to the scheduler, the comment stays.
/// A job that asks for its next plan finds it in its SystemComment, or is to leave (refused).
/// `config`: nullptr where there is none. SLURM_SUCCESS, or Slurm's error code for who sent it:
/// EAGAIN says that it came too soon after others and may be sent again later.
int take_report(ReportDesk&, const Config* config, job_desc_msg_t* change, job_record_t* job,
                std::uint32_t uid);

}  // namespace arena
