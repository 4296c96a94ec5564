// SPDX-License-Identifier: GPL-2.0-or-later
// Job arrays in Slurm's records: which task a record is, and how tasks of the one record that
// stands for a whole array get records of their own.
#pragma once

#include "plugin/sched/slurm/slurm_util.h"

namespace arena {

/// Under a lock.
ArrayPlace array_place(const job_record_t* job);

/// A job that trains members of arrays, as it is; under a lock.
ArrayCarrierView array_carrier_of(const job_record_t* job, const char* facts);

/// Of a member that is about to start, for so many minutes, under the write locks: that its carrier
/// runs on, for which its limit is raised as limit_for_member() says, no further than its partition
/// allows and not at all where limits of accounts are enforced. Why not; "" = it does.
std::string outlast(JobId carrier, const job_record_t* member, std::uint32_t minutes);

/// See HostArrays. Each takes its own lock.
HostArrays::Started start_array_carrier(const ArrayCarrierSpec& spec);
void end_array_carrier(JobId id, bool at_once);
bool leave_with_array(JobId id, const std::vector<JobId>& members, const Move& move, bool at_once);
void write_array_shares(const std::vector<HostArrays::ShareWords>& shares);

/// See HostJobs::split(). Takes its own lock.
ApplyResult split_array(JobId id, std::uint32_t restart, std::int64_t tasks);

}  // namespace arena
