// SPDX-License-Identifier: GPL-2.0-or-later
// Job arrays in Slurm's records: which task a record is, and how tasks of the one record that
// stands for a whole array get records of their own.
#pragma once

#include "plugin/sched/slurm/slurm_util.h"

namespace arena {

/// Under a lock.
ArrayPlace array_place(const job_record_t* job);

/// See HostJobs::split(). Takes its own lock.
ApplyResult split_array(JobId id, std::uint32_t restart, std::int64_t tasks);

}  // namespace arena
