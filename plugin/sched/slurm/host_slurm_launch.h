// SPDX-License-Identifier: GPL-2.0-or-later
// Launches on their way: slurmctld's agent, one thread for all, takes them up one by one and drops
// what is left when slurmctld stops. Such a job would come back as running, be launched by nobody
// and hold its GPUs. And what all jobs that Arena itself makes have in common.
#pragma once

#include "plugin/sched/slurm/slurm_util.h"

namespace arena {

/// Made before a start, without locks; asked after it, without locks.
class LaunchWatch {
  public:
    LaunchWatch() : waiting_(retry_list_size()) {}
    /// Waits a moment for the agent to take up what was queued since. False when slurmctld stops
    /// before: then it never will. Keeps launches few, too, that a stop between two jobs of a round
    /// could meet.
    [[nodiscard]] bool taken_up() const;

  private:
    int waiting_;
};

/// Has a started job's nodes begin: its script is sent, or salloc told. Where a Prolog or a booting
/// node is waited for, slurmctld does the former itself. It is told and saved.
void hand_over(job_record_t*);

/// A list of Slurm's, to be freed by it.
char** string_array(const std::vector<std::string>& entries);
/// Starts a job that Arena has made on exactly these nodes: Slurm's code. `limit`: what it breaks.
int select_made(job_record_t*& job, const std::vector<std::string>& nodes, std::string& limit);
void cancel_made(job_record_t*);
/// Slurm's codes that are about nodes as they are now: down, reserved, in use. Any other one stays.
bool is_about_nodes(int code);

/// Requeues a job that was started and never launched, although slurmctld stops: what it saves last
/// is to say so. salloc asks again by itself.
void take_back_start(JobId id, std::uint32_t restart);

}  // namespace arena
