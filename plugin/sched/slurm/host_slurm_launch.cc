// SPDX-License-Identifier: GPL-2.0-or-later
// See host_slurm_launch.h.
#include "plugin/sched/slurm/host_slurm_launch.h"

#include <thread>

namespace arena {
namespace {

/// The agent that has too much to do gets on without us.
constexpr auto patience = std::chrono::milliseconds(50);
constexpr auto look = std::chrono::microseconds(100);

}  // namespace

bool LaunchWatch::taken_up() const {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (retry_list_size() > waiting_) {
        // In this order: what waits after the stop was seen is sent by nobody.
        if (controller_stops()) return retry_list_size() <= waiting_;
        if (std::chrono::steady_clock::now() > end) return true;
        std::this_thread::sleep_for(look);
    }
    return true;
}

void hand_over(job_record_t* job) {
    if (job->batch_flag == 0)
        srun_allocate(job);
    else if (!IS_JOB_CONFIGURING(job))
        launch_job(job);
}

void take_back_start(JobId id, std::uint32_t restart) {
    SlurmLock lock(SlurmLock::Kind::write);
    job_record_t* job = find_job_record(id);
    if (!job || job->restart_cnt != restart || !IS_JOB_RUNNING(job) || IS_JOB_COMPLETING(job) ||
        job->batch_flag == 0)
        return;
    info("arena: JobId=%u requeued: slurmctld stops, and its launch was not sent", id);
    complete_to_requeue(job);
    schedule_job_save();
    schedule_node_save();
}

}  // namespace arena
