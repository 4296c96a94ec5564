// SPDX-License-Identifier: GPL-2.0-or-later
// See host_slurm_launch.h.
#include "plugin/sched/slurm/host_slurm_launch.h"

#include <csignal>
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
    note_job_change();
    schedule_job_save();
    schedule_node_save();
}

char** string_array(const std::vector<std::string>& entries) {
    auto** array = static_cast<char**>(xcalloc(entries.size() + 1, sizeof(char*)));
    for (std::size_t i = 0; i < entries.size(); ++i) array[i] = xstrdup(entries[i].c_str());
    return array;
}

int select_made(job_record_t*& job, const std::vector<std::string>& nodes, std::string& limit) {
    if (job->priority == 0) return ESLURM_JOB_HELD;
    if (!job_independent(job)) return ESLURM_DEPENDENCY;
    limit = limit_in_the_way(job);
    if (!limit.empty()) return ESLURM_ACCOUNTING_POLICY;
    bitstr_t* chosen = bitmap_of(nodes);
    if (!chosen) return ESLURM_NODE_NOT_AVAIL;
    const int rc = select_on(job, chosen);
    bit_free(chosen);
    return rc;
}

void cancel_made(job_record_t* job) {
    (void)job_signal(job, SIGKILL, KILL_FULL_JOB, slurm_conf.slurm_user_id, false);
    schedule_job_save();
}

bool is_about_nodes(int code) {
    return code == ESLURM_NODES_BUSY || code == ESLURM_NODE_NOT_AVAIL ||
           code == ESLURM_RESERVATION_BUSY || code == ESLURM_RESERVATION_MAINT;
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
