// SPDX-License-Identifier: GPL-2.0-or-later
// See host_slurm_arrays.h. What the calls leave in the records, and how that was tried:
// doc/arrays.md.
#include "plugin/sched/slurm/host_slurm_arrays.h"

#include <csignal>

#include "base/text.h"
#include "installed_paths.h"
#include "plugin/sched/host/carrier_time.h"
#include "plugin/sched/host/end_comment.h"
#include "plugin/sched/slurm/host_slurm_launch.h"

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
    job_record_t* rest = split_next_task(array);
    if (!rest) return nullptr;
    info("arena: JobId=%u is task %u of job array %u", array->job_id, task, array->array_job_id);
    return rest != array && stands_for_tasks(rest) ? rest : nullptr;
}

}  // namespace

ArrayPlace array_place(const job_record_t* job) {
    ArrayPlace place;
    place.id = job->array_job_id;
    if (job->array_task_id != NO_VAL) place.task = job->array_task_id;
    // Slurm asks this record of %K, too.
    const job_record_t* first = place.id != 0 ? find_job_record(place.id) : nullptr;
    if (first && first->array_recs) place.limit = first->array_recs->max_run_tasks;
    if (stands_for_tasks(job)) place.left = job->array_recs->task_cnt;
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

// ---- carriers of members -----------------------------------------------------------------------

namespace {

/// What a plan or an earlier life left in a job's environment.
bool is_of_another_shape(std::string_view entry) {
    if (entry.starts_with("ARENA_")) return !entry.starts_with("ARENA_CONF=");
    return entry.starts_with("SLURM_NTASKS") || entry.starts_with("SLURM_CPUS_PER_TASK=") ||
           entry.starts_with("SLURM_TRES_PER_TASK=");
}

/// As its user submitted the lead, with the carrier's own instead of Arena's.
std::vector<std::string> environment_of(job_record_t* lead, const ArrayCarrierSpec& spec) {
    std::vector<std::string> entries;
    std::uint32_t count = 0;
    char** stored = get_job_env(lead, &count);
    for (std::uint32_t i = 0; stored && i < count; ++i)
        if (!is_of_another_shape(stored[i])) entries.emplace_back(stored[i]);
    if (stored) xfree(stored[0]);  // all of them lie in one piece
    xfree(stored);
    entries.insert(entries.end(), spec.environment.begin(), spec.environment.end());
    entries.emplace_back("ARENA_BINDIR=" ARENA_BINDIR);
    return entries;
}

char* copy_of(const char* text) { return text ? xstrdup(text) : nullptr; }

void describe_size(const ArrayCarrierSpec& spec, job_desc_msg_t* desc) {
    const auto nodes = static_cast<std::uint32_t>(spec.nodes.size());
    const auto tasks = nodes * static_cast<std::uint32_t>(spec.gpus_per_node);
    desc->min_nodes = desc->max_nodes = nodes;
    desc->num_tasks = tasks;
    desc->bitflags |= JOB_NTASKS_SET;  // as sbatch does: else 24.11 tells its script of none
    desc->ntasks_per_node = static_cast<std::uint16_t>(spec.gpus_per_node);
    desc->cpus_per_task = static_cast<std::uint16_t>(spec.cpus_per_gpu);
    desc->min_cpus = tasks * static_cast<std::uint32_t>(spec.cpus_per_gpu);
    if (spec.memory_mb_per_node > 0)
        desc->pn_min_memory = static_cast<std::uint64_t>(spec.memory_mb_per_node);
    desc->tres_per_node = xstrdup(gpu_request(spec.gpu_type, spec.gpus_per_node).c_str());
}

/// A limit of Slurm's that is set.
std::int64_t minutes_of(std::uint32_t limit) { return limit == INFINITE ? no_limit : limit; }

/// It has a moment more than its longest member, where that is allowed, and is told before its end.
void describe_time(const ArrayCarrierSpec& spec, std::uint32_t longest, job_desc_msg_t* desc) {
    constexpr std::uint32_t to_begin_minutes = 2, most_to_save_s = 120;
    desc->time_limit = INFINITE;
    if (spec.time_limit_minutes != 0)
        desc->time_limit = spec.time_limit_minutes + (limits_are_enforced() ? 0 : to_begin_minutes);
    if (longest != INFINITE) desc->time_limit = std::min(desc->time_limit, longest);
    if (desc->time_limit == INFINITE) return;
    desc->warn_signal = SIGUSR1;
    desc->warn_time =
        static_cast<std::uint16_t>(std::min(desc->time_limit * 60 / 10, most_to_save_s));
}

job_desc_msg_t* describe(const ArrayCarrierSpec& spec, job_record_t* lead, std::uint32_t longest) {
    auto* desc = static_cast<job_desc_msg_t*>(xmalloc(sizeof(job_desc_msg_t)));
    slurm_init_job_desc_msg(desc);
    desc->name = xstrdup(spec.name.c_str());
    desc->user_id = lead->user_id;
    desc->group_id = lead->group_id;
    desc->account = copy_of(lead->account);
    if (lead->qos_ptr) desc->qos = copy_of(lead->qos_ptr->name);
    desc->wckey = copy_of(lead->wckey);
    desc->reservation = copy_of(lead->resv_name);
    desc->alloc_node = copy_of(lead->alloc_node);
    desc->partition = xstrdup(spec.partition.c_str());
    desc->script = xstrdup(spec.script.c_str());
    desc->work_dir = copy_of(lead->details->work_dir);
    desc->std_out = xstrdup("arena-array-%j.out");
    desc->std_in = xstrdup("/dev/null");
    desc->admin_comment = xstrdup(spec.admin_comment.c_str());
    describe_size(spec, desc);
    describe_time(spec, longest, desc);
    desc->requeue = 0;  // its members come back by themselves
    const std::vector<std::string> environment = environment_of(lead, spec);
    desc->environment = string_array(environment);
    desc->env_size = static_cast<std::uint32_t>(environment.size());
    desc->spank_job_env = string_array({"ARENA_CARRIER=" + spec.facts});
    desc->spank_job_env_size = 1;
    return desc;
}

/// Nothing was asked of Slurm.
HostArrays::Started stale(const std::string& why) {
    return {.id = 0, .limited = false, .stale = true, .why = why};
}

HostArrays::Started start_locked(const ArrayCarrierSpec& spec) {
    ActionLock lock;
    if (!lock) return stale("slurmctld is stopping");
    job_record_t* lead = find_job_record(spec.lead);
    if (!lead || !arena_record(lead) || lead->restart_cnt != spec.restart ||
        !plannable(facts_of(lead)) || basis_of(lead) != spec.basis)
        return stale("the job changed while it was planned");
    if (const job_state_reason why = not_startable(lead); why != WAIT_NO_REASON)
        return stale(text_of(reason_name(why)));
    const part_record_t* part = find_part_record(const_cast<char*>(spec.partition.c_str()));
    if (!part) return stale("partition " + spec.partition + " is gone");
    job_desc_msg_t* desc = describe(spec, lead, part->max_time);
    job_record_t* job = nullptr;
    char* message = nullptr;
    int rc = job_allocate(desc, 0, 0, nullptr, 0, lead->user_id, false, &job, &message,
                          SLURM_PROTOCOL_VERSION);
    std::string why = text_of(message);
    xfree(message);
    slurm_free_job_desc_msg(desc);
    const bool made = rc == SLURM_SUCCESS && job;
    if (made) rc = select_made(job, spec.nodes, why);
    if (rc != SLURM_SUCCESS || !job) {
        const bool pending = job && job->magic == JOB_MAGIC && !IS_JOB_FINISHED(job);
        if (why.empty() && pending && rc == ESLURM_ACCOUNTING_POLICY)
            why = text_of(reason_name(static_cast<job_state_reason>(job->state_reason)));
        if (why.empty()) why = text_of(slurm_strerror(rc));
        if (pending) cancel_made(job);
        return {.id = 0,
                .limited = !is_about_nodes(rc),
                .why = "Slurm refused the job of its pipeline: " + why};
    }
    info("arena: JobId=%u started on %s: %s", job->job_id, job->nodes, spec.admin_comment.c_str());
    hand_over(job);
    return {.id = job->job_id, .limited = false, .why = {}};
}

}  // namespace

ArrayCarrierView array_carrier_of(const job_record_t* job, const char* facts) {
    ArrayCarrierView view;
    view.id = job->job_id;
    view.user_id = job->user_id;
    view.facts = facts;
    view.running = IS_JOB_RUNNING(job) && !IS_JOB_COMPLETING(job);
    view.configuring = IS_JOB_CONFIGURING(job);
    view.finished = IS_JOB_FINISHED(job) && !IS_JOB_COMPLETING(job);
    view.end = job_state_string(static_cast<job_states>(job->job_state & JOB_STATE_BASE));
    view.start_s = static_cast<double>(job->start_time);
    view.end_s = static_cast<double>(job->end_time);
    // The batch script, and with it the first rank, is there.
    const std::string first = text_of(job->batch_host);
    if (!first.empty()) view.nodes.push_back(first);
    const bitstr_t* nodes = job->job_resrcs ? job->job_resrcs->node_bitmap : nullptr;
    for (bitoff_t i = 0; nodes && i < bit_size(const_cast<bitstr_t*>(nodes)); ++i) {
        const node_record_t* node = node_record_table_ptr[i];
        if (!bit_test(const_cast<bitstr_t*>(nodes), i) || !node) continue;
        if (first != node->name) view.nodes.emplace_back(node->name);
        if (IS_NODE_DRAIN(node) || IS_NODE_FAIL(node)) view.drained.emplace_back(node->name);
    }
    view.leaves_since_s = static_cast<double>(array_leaves_since(job));
    view.gpus = job->details ? job->details->num_tasks : 0;
    view.shared_gpu_s = number_in(text_of(job->admin_comment), share_key);
    return view;
}

std::string outlast(JobId carrier, const job_record_t* member, std::uint32_t minutes) {
    job_record_t* job = find_job_record(carrier);
    if (!job || !array_facts(job) || !IS_JOB_RUNNING(job) || IS_JOB_COMPLETING(job) ||
        job->user_id != member->user_id)
        return "the job of its pipeline is over";
    CarrierTime time{.start_s = static_cast<double>(job->start_time),
                     .now_s = static_cast<double>(std::time(nullptr)),
                     .minutes = minutes_of(job->time_limit)};
    time.most = limits_are_enforced() || !job->part_ptr ? time.minutes
                                                        : minutes_of(job->part_ptr->max_time);
    const auto limit = limit_for_member(time, minutes_of(minutes));
    if (!limit) return "its time limit is more than twice what is left to the job of its pipeline";
    if (*limit == time.minutes) return {};
    job->time_limit = *limit == no_limit ? INFINITE : static_cast<std::uint32_t>(*limit);
    job_end_time_reset(job);
    return {};
}

HostArrays::Started start_array_carrier(const ArrayCarrierSpec& spec) {
    const LaunchWatch launch;
    HostArrays::Started started = start_locked(spec);
    if (started.id == 0 || launch.taken_up()) return started;
    SlurmLock lock(SlurmLock::Kind::write);
    if (job_record_t* job = find_job_record(started.id)) cancel_made(job);
    return stale("slurmctld is stopping");
}

void end_array_carrier(JobId id, bool at_once) {
    ActionLock lock;
    job_record_t* job = lock ? find_job_record(id) : nullptr;
    if (!job || !array_facts(job) || !IS_JOB_RUNNING(job) || IS_JOB_COMPLETING(job)) return;
    info("arena: JobId=%u is %s: nobody is trained by it any more", id,
         at_once ? "cancelled" : "told to end");
    if (!at_once && has_steps(job))
        (void)job_signal(job, SIGUSR1, 0, slurm_conf.slurm_user_id, false);
    else
        cancel_made(job);
}

namespace {

/// As of each job that Arena moves.
void count_move(JobId id, JobId carrier) {
    job_record_t* job = find_job_record(id);
    auto mark = job && arena_record(job) ? read_mark(job) : std::nullopt;
    if (!mark || mark->array != carrier) return;
    add_move(*mark, time(nullptr));
    write_mark(job, *mark);
}

/// Of one that was told before the time of that stays.
void mark_leaving(job_record_t* job, const std::string& why) {
    if (array_leaves_since(job) == 0)
        write_mark(job, next_mark(read_mark(job), Phase::checkpointing, job->restart_cnt,
                                  OtherHold::none, time(nullptr)));
    assign_text(&job->state_desc, "Arena: " + why);
    note_job_change();
    schedule_job_save();
}

}  // namespace

bool leave_with_array(JobId id, const std::vector<JobId>& members, const Move& move, bool at_once) {
    ActionLock lock;
    job_record_t* job = lock ? find_job_record(id) : nullptr;
    const bool has_nodes = job && (IS_JOB_RUNNING(job) || (at_once && IS_JOB_SUSPENDED(job)));
    if (!has_nodes || !array_facts(job) || !job->details || IS_JOB_COMPLETING(job)) return false;
    mark_leaving(job, move.why);
    if (move.counts)
        for (const JobId member : members) count_move(member, id);
    const bool tells = !at_once && has_steps(job);
    info("arena: JobId=%u %s: %s", id, move.why.c_str(),
         tells ? "told to save its members and leave" : "cancelled");
    if (!tells || job_signal(job, SIGUSR1, 0, slurm_conf.slurm_user_id, false) != SLURM_SUCCESS)
        cancel_made(job);
    return true;
}

void write_array_shares(const std::vector<HostArrays::ShareWords>& shares) {
    ActionLock lock;
    if (!lock) return;
    bool changed = false;
    for (const HostArrays::ShareWords& share : shares) {
        job_record_t* job = find_job_record(share.job);
        if (!job || !(arena_record(job) || array_facts(job))) continue;
        changed |=
            assign_text(&job->admin_comment, with_word(text_of(job->admin_comment), share.words));
    }
    if (!changed) return;
    note_job_change();
    schedule_job_save();
}

}  // namespace arena
