// SPDX-License-Identifier: GPL-2.0-or-later
// The partitions of a job as Slurm's own loops would try them: one after the other in Slurm's
// order, each within its own limits. Counterpart of build_job_queue() and _part_access_check(),
// which look at a job's shape; here the shape is still to be chosen. Callers hold slurmctld's
// locks.
#pragma once

#include <cstdint>
#include <vector>

#include "plugin/common/slurm_compat.h"
#include "plugin/sched/host/ordinary.h"

namespace arena {

struct PartitionTry {
    part_record_t* partition = nullptr;
    std::uint32_t time_limit =
        NO_VAL;  ///< minutes, as the job would start with; NO_VAL: the partition's
    /// Only with the job's --time-min: Slurm's backfill starts such a job, the main loop does not.
    bool least_time = false;
};

struct PartitionTries {
    std::vector<PartitionTry> list;
    /// Where the list is empty: the reason that Slurm would show.
    job_state_reason why = WAIT_NO_REASON;
};

/// The most preferred first. Reads the records only.
PartitionTries partition_tries(const job_record_t* job);
/// Slurm's reason why the partition does not take the job whatever its shape; WAIT_NO_REASON: it
/// does.
job_state_reason partition_reason(const part_record_t* partition, const job_record_t* job,
                                  std::uint32_t time_limit);
/// The job's partitions, those that do not schedule too, as they stand in its record.
std::vector<part_record_t*> partitions_of(const job_record_t* job);
/// Time limit that a start in this partition gives the job: its --deadline bounds it.
std::uint32_t time_limit_in(const part_record_t* partition, const job_record_t* job,
                            std::time_t now);
/// What a start there makes of a time limit: where its user gave none, the partition's.
std::uint32_t started_limit(const part_record_t* partition, std::uint32_t minutes);
[[nodiscard]] bool has_deadline(const job_record_t* job);
/// False, and the job is over (DEADLINE), where it cannot end by its --deadline any more: Slurm's
/// loops ask this of each job that could start, but not of held ones.
[[nodiscard]] bool can_end_in_time(job_record_t* job);
/// How far the job's best partition stands before the others of the cluster: tiers above the
/// lowest.
std::uint32_t tier_of(const std::vector<PartitionTry>& tries);

/// Nodes of its partitions that schedule.
bitstr_t* partition_nodes(const job_record_t* job);
struct FirstOfPartition {
    job_record_t* job;
    bool very_first;  ///< if it does not stand before an Arena job, none of its partition does
};
/// Of the jobs of each partition (or list of partitions) those that stand first, at most so many,
/// in order. Keeps the look at a long queue short.
std::vector<FirstOfPartition> first_of_each_partition(const std::vector<job_record_t*>& jobs,
                                                      std::size_t most);
/// An ordinary job that waits, but for its nodes and place.
OrdinaryJob ordinary_job(const job_record_t* waiting, double now_s);

/// The job's record as Slurm's loops would have it while they try it there; set back when left.
class TryingIn {
  public:
    TryingIn(job_record_t* job, const PartitionTry& where)
        : job_(job), partition_(job->part_ptr), time_limit_(job->time_limit) {
        job->part_ptr = where.partition;
        job->time_limit = where.time_limit;
    }
    ~TryingIn() {
        job_->part_ptr = partition_;
        job_->time_limit = time_limit_;
    }
    TryingIn(const TryingIn&) = delete;
    TryingIn& operator=(const TryingIn&) = delete;

  private:
    job_record_t* job_;
    part_record_t* partition_;
    std::uint32_t time_limit_;
};

}  // namespace arena
