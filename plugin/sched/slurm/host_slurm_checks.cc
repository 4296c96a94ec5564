// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a job may start now: what stock's schedule() asks of each job on each pass and
// select_nodes() does not ask again, in Slurm's own calls; and whether it is still the job that was
// planned.
#include "plugin/sched/host/fingerprint.h"
#include "plugin/sched/slurm/host_slurm_facts.h"
#include "plugin/sched/slurm/slurm_util.h"

namespace arena {
namespace {

std::string_view field(const char* text) {
    return text ? std::string_view(text) : std::string_view();
}

/// The QOS as schedule() asks about it: still one of the association's.
bool qos_is_valid(const job_record_t* job) {
    if (job->qos_id == 0 || !job->assoc_ptr || !(accounting_enforce & ACCOUNTING_ENFORCE_QOS))
        return true;
    if (job->limit_set.qos) return true;
    assoc_mgr_lock_t locks{};
    locks.assoc = READ_LOCK;
    locks.qos = READ_LOCK;
    assoc_mgr_lock(&locks);
    const slurmdb_assoc_usage_t* usage = job->assoc_ptr->usage;
    const bool valid = job->qos_ptr && job->qos_id < g_qos_count && usage && usage->valid_qos &&
                       bit_test(usage->valid_qos, static_cast<bitoff_t>(job->qos_id));
    assoc_mgr_unlock(&locks);
    return valid;
}

/// The end of its last run is still being cleaned up.
bool is_cleaning(const job_record_t* job) {
    return (job->details && job->details->prolog_running) ||
           (job->step_list && list_count(job->step_list) > 0);
}

/// Nodes were told of the end of the job's last life in this second: slurmd ends a job whose
/// credential is no second younger. Slurm's own delay of a requeued job, which Arena forgets, is
/// for this, too. submit_time is the time of the requeue, or one second later.
bool in_second_of_requeue(const job_record_t* job) {
    if (job->restart_cnt == 0 || !job->details) return false;
    const auto ahead_s = job->details->submit_time - time(nullptr);
    return ahead_s == 0 || ahead_s == 1;
}

/// Slurm counts a job of a reservation in only those partitions that share enough nodes with it.
bool reservation_reaches(const job_record_t* job) {
    const slurmctld_resv_t* reservation = job->resv_ptr;
    if (!reservation || !reservation->node_bitmap || !job->part_ptr || !job->part_ptr->node_bitmap)
        return true;
    return bit_overlap_any(reservation->node_bitmap, job->part_ptr->node_bitmap);
}

}  // namespace

std::uint64_t basis_of(const job_record_t* job) {
    const JobDetails* details = job->details;
    Fingerprint basis;
    // The record changes with the job's submission only: where it lies stands for what it says.
    basis.add(reinterpret_cast<std::uintptr_t>(arena_record(job)));
    for (const char* text :
         {job->comment, job->partition, job->account, job->resv_name, job->licenses,
          details->features, details->cluster_features, details->req_nodes})
        basis.add(field(text));
    basis.add(own_excludes(job));
    basis.add(job->user_id).add(job->qos_id).add(job->time_limit).add(job->time_min);
    basis.add(static_cast<std::uint64_t>(job->deadline))
        .add(details->nice)
        .add(details->contiguous);
    basis.add(details->pn_min_tmp_disk).add(details->core_spec);
    return basis.add(job->priority).value();
}

job_state_reason lost_right(job_record_t* job) {
    // Slurm takes the pointers of a job whose association or QOS is deleted, and gives them back to
    // one that has this reason.
    const auto reason = job->state_reason;
    if ((accounting_enforce & ACCOUNTING_ENFORCE_ASSOCS) && !job->assoc_ptr) {
        job->state_reason = FAIL_ACCOUNT;
        set_job_failed_assoc_qos_ptr(job);
    }
    if ((accounting_enforce & ACCOUNTING_ENFORCE_QOS) && job->qos_id != 0 && !job->qos_ptr) {
        job->state_reason = FAIL_QOS;
        set_job_failed_assoc_qos_ptr(job);
    }
    job->state_reason = reason;
    if (!qos_is_valid(job)) return FAIL_QOS;
    if (assoc_mgr_validate_assoc_id(acct_db_conn, job->assoc_id, accounting_enforce) !=
        SLURM_SUCCESS)
        return FAIL_ACCOUNT;
    return WAIT_NO_REASON;
}

job_state_reason not_startable(job_record_t* job) {
    if (IS_JOB_REVOKED(job)) return FAIL_SYSTEM;
    if (is_cleaning(job) || in_second_of_requeue(job)) return WAIT_CLEANING;
    if (const job_state_reason lost = lost_right(job); lost != WAIT_NO_REASON) return lost;
    return reservation_reaches(job) ? WAIT_NO_REASON : WAIT_RESERVATION;
}

}  // namespace arena
