// SPDX-License-Identifier: GPL-2.0-or-later
// See host_slurm_arrays.h. What the calls leave in the records, and how that was tried:
// doc/arrays.md.
#include "plugin/sched/slurm/host_slurm_arrays.h"

namespace arena {
namespace {

/// Slurm's own test of a record that stands for tasks.
bool stands_for_tasks(const job_record_t* job) {
    return job->array_recs && job->array_recs->task_id_bitmap && job->array_recs->task_cnt > 0 &&
           job->array_task_id == NO_VAL;
}

/// As select_nodes() does when a task starts: the record that was the array's becomes the task,
/// with a new id, and a copy keeps the array's id and its other tasks. The last task keeps the id,
/// and has no such copy. Returns the array's record; nullptr where none is left.
job_record_t* split_one(job_record_t* array) {
    job_array_pre_sched(array);
    const std::uint32_t task = array->array_task_id;
    job_record_t* rest = job_array_post_sched(array);
    if (!rest) return nullptr;
    info("arena: JobId=%u is task %u of job array %u", array->job_id, task, array->array_job_id);
    return rest != array && stands_for_tasks(rest) ? rest : nullptr;
}

}  // namespace

ArrayPlace array_place(const job_record_t* job) {
    ArrayPlace place;
    place.id = job->array_job_id;
    if (job->array_task_id != NO_VAL) place.task = job->array_task_id;
    if (!stands_for_tasks(job)) return place;
    place.left = job->array_recs->task_cnt;
    place.limit = job->array_recs->max_run_tasks;
    return place;
}

ApplyResult split_array(JobId id, std::uint32_t restart, std::int64_t tasks) {
    ActionLock lock;
    if (!lock) return {ApplyOutcome::stale, "slurmctld is stopping"};
    job_record_t* array = find_job_record(id);
    if (!array || !arena_record(array) || array->restart_cnt != restart ||
        !stands_for_tasks(array) || !plannable(facts_of(array)))
        return {ApplyOutcome::stale, "the array changed while it was planned"};
    for (std::int64_t i = 0; i < tasks && array; ++i) array = split_one(array);
    note_job_change();
    schedule_job_save();
    return {};
}

}  // namespace arena
