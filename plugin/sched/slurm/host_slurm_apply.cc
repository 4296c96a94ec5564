// SPDX-License-Identifier: GPL-2.0-or-later
// Rewrite and start in one critical section (the proven sequence: drop the old request,
// update_job(), env_sup, mask the other nodes, select_nodes(), launch_job()), and the ways back
// when it fails.
#include "plugin/sched/slurm/host_slurm_apply.h"

#include <fmt/format.h>

#include "base/text.h"
#include "plugin/common/shared.h"
#include "plugin/sched/host/end_comment.h"
#include "plugin/sched/host/move_end.h"
#include "plugin/sched/slurm/host_slurm_arrays.h"
#include "plugin/sched/slurm/host_slurm_facts.h"
#include "plugin/sched/slurm/host_slurm_launch.h"
#include "plugin/sched/slurm/host_slurm_loans.h"
#include "plugin/sched/slurm/host_slurm_partitions.h"
#include "plugin/sched/slurm/slurm_util.h"
#include "reports/next_plan.h"
#include "site/leave_signals.h"

namespace arena {
namespace {

ApplyResult failed(ApplyOutcome outcome, std::string text) { return {outcome, std::move(text)}; }

ApplyResult stopping() { return failed(ApplyOutcome::stale, "slurmctld is stopping"); }

/// The job if it is still the one that was planned, else nullptr.
job_record_t* find_planned(const Shape& shape) {
    job_record_t* job = find_job_record(shape.job);
    if (!job || !arena_record(job) || job->restart_cnt != shape.restart) return nullptr;
    return plannable(facts_of(job)) && basis_of(job) == shape.basis ? job : nullptr;
}

/// With its nodes, suspended or not.
job_record_t* find_started(JobId id, std::uint32_t restart) {
    job_record_t* job = find_job_record(id);
    if (!job || !arena_record(job) || job->restart_cnt != restart) return nullptr;
    const bool has_nodes = IS_JOB_RUNNING(job) || IS_JOB_SUSPENDED(job);
    return has_nodes && !IS_JOB_COMPLETING(job) ? job : nullptr;
}

job_record_t* find_running(JobId id, std::uint32_t restart) {
    job_record_t* job = find_started(id, restart);
    return job && IS_JOB_RUNNING(job) ? job : nullptr;
}

void drop_request(job_record_t* job) {
    FREE_NULL_LIST(job->gres_list_req);
    xfree(job->tres_per_node);
    xfree(job->tres_per_job);
    xfree(job->tres_per_socket);
    xfree(job->tres_per_task);
    xfree(job->cpus_per_tres);
    xfree(job->mem_per_tres);
}

/// The tasks of its nodes differ: each has its GPU.
bool has_gpu_tasks(const Shape& shape) {
    return shape.offer.grid.is_uneven() && shape.cpus_per_gpu == 0;
}

void fill_update(job_desc_msg_t& desc, const Shape& shape, const std::string& gres,
                 const std::string& comment) {
    const Grid& grid = shape.offer.grid;
    const auto tasks = static_cast<std::uint32_t>(shape.tasks());
    slurm_init_job_desc_msg(&desc);
    set_job_id(desc, shape.job);
    desc.min_nodes = desc.max_nodes = static_cast<std::uint32_t>(grid.nodes);
    desc.num_tasks = tasks;
    // With CPUs by GPU it would bound a node's CPUs as well.
    desc.ntasks_per_node = static_cast<std::uint16_t>(grid.is_uneven() ? 0 : shape.tasks_per_node);
    // Slurm's field is short: more than it holds is more than any node has, and refused as that.
    const std::int64_t each = shape.cpus_per_gpu > 0 ? 1 : shape.cpus_per_task;
    const auto cpus = std::min<std::int64_t>(each, NO_VAL16 - 1);
    desc.cpus_per_task = static_cast<std::uint16_t>(cpus);
    // update_job() only ever raises min_cpus by itself: a smaller second plan would be refused.
    desc.min_cpus = tasks * static_cast<std::uint32_t>(cpus);
    if (shape.memory_mb_per_node > 0)
        desc.pn_min_memory = static_cast<std::uint64_t>(shape.memory_mb_per_node);
    if (shape.memory_mb_per_cpu > 0)
        desc.pn_min_memory = static_cast<std::uint64_t>(shape.memory_mb_per_cpu) | MEM_PER_CPU;
    if (!gres.empty())
        (shape.cpus_per_gpu > 0 ? desc.tres_per_job
         : has_gpu_tasks(shape) ? desc.tres_per_task
                                : desc.tres_per_node) = xstrdup(gres.c_str());
    if (shape.cpus_per_gpu > 0)
        desc.cpus_per_tres = xstrdup(gpu_request("", shape.cpus_per_gpu).c_str());
    if (shape.memory_mb_per_gpu > 0)
        desc.mem_per_tres = xstrdup(gpu_request("", shape.memory_mb_per_gpu).c_str());
    desc.admin_comment = xstrdup(comment.c_str());
    desc.priority = INFINITE;
}

/// `eligible`: before the release, which makes Slurm forget a begin time that has passed.
void restore_place(job_record_t* job, time_t eligible) {
    start_accrual(job, eligible);
    if (basic_priority()) {
        job->priority = BasicQueue().place_of(job);
    } else {
        job->priority = multifactor_priority(job, age_reference());
    }
}

/// Slurm frees from the limits of its user, account and QOS whatever an operator asked for; but
/// Arena asks in the user's place. Keeps what was set before.
class LimitsStay {
  public:
    explicit LimitsStay(job_record_t* job)
        : job_(job), time_(job->limit_set.time), qos_(job->limit_set.qos) {
        if (job->limit_set.tres)
            tres_.assign(job->limit_set.tres, job->limit_set.tres + slurmctld_tres_cnt);
    }
    ~LimitsStay() {
        job_->limit_set.time = time_;
        job_->limit_set.qos = qos_;
        if (job_->limit_set.tres) std::copy(tres_.begin(), tres_.end(), job_->limit_set.tres);
    }
    LimitsStay(const LimitsStay&) = delete;
    LimitsStay& operator=(const LimitsStay&) = delete;

  private:
    job_record_t* job_;
    std::uint16_t time_, qos_;
    std::vector<std::uint16_t> tres_;
};

/// "" for a member of an array, which has none of its own.
std::string gres_of(const Shape& shape) {
    if (shape.array != 0) return {};
    const Grid& grid = shape.offer.grid;
    const std::int64_t all = has_gpu_tasks(shape) ? 1 : grid.gpus();
    return gpu_request(grid.gpu_type, grid.is_uneven() ? all : grid.gpus_per_node);
}

bool asks_for(const job_record_t* job, const Shape& shape, const std::string& gres) {
    if (gres.empty()) return !job->gres_list_req;
    if (!job->gres_list_req) return false;
    if (has_gpu_tasks(shape)) return asks_for_gres(job->tres_per_task);
    return text_of(shape.cpus_per_gpu > 0 ? job->tres_per_job : job->tres_per_node) == gres;
}

/// Memory by GPU counts only where none is asked for by node.
void forget_node_memory(job_record_t* job) {
    job->details->pn_min_memory = 0;
    job->bit_flags &= ~std::uint64_t{JOB_MEM_SET};
}

/// srun shares out tasks by a node's CPUs: of whole cores where their number differs.
std::string why_not_uneven(const Shape& shape, bitstr_t* chosen) {
    if (!has_gpu_tasks(shape)) return {};
    const bitoff_t last = bit_fls(chosen);
    for (bitoff_t i = bit_ffs(chosen); i >= 0 && i <= last; ++i) {
        if (!bit_test(chosen, i)) continue;
        const std::uint16_t threads = node_record_table_ptr[i]->tpc;
        if (threads > 1 && shape.cpus_per_task % threads != 0)
            return fmt::format("{} CPUs of a task are no whole cores of {}", shape.cpus_per_task,
                               node_record_table_ptr[i]->name);
    }
    return {};
}

/// Arena's own variables, instead of those that it has.
void write_environment(job_record_t* job, const Shape& shape) {
    clear_supplements(job);
    for (const std::string& entry : shape.environment) {
        const std::size_t equals = entry.find('=');
        set_supplement(job, entry.substr(0, equals), entry.substr(equals + 1));
    }
    if (find_variable(job->details->env_sup, job->details->env_cnt, leave_signal_variable) &&
        job->warn_signal != 0)
        set_supplement(job, leave_signal_variable, name_of(leave_signals, +job->warn_signal));
}

/// Writes shape, environment and mark; the job is released afterwards. Non-zero: Slurm's error
/// code.
int reshape(job_record_t* job, const Shape& shape, Phase phase) {
    hold_for_arena(job, "Arena: being reshaped");
    const time_t eligible = eligible_since(job);
    drop_request(job);
    job_desc_msg_t desc;
    const Grid& grid = shape.offer.grid;
    const std::string gres = gres_of(shape);
    fill_update(desc, shape, gres, shape.admin_comment);
    slurm_msg_t message;
    slurm_msg_t_init(&message);
    message.data = &desc;
    int rc;
    {
        OwnCall own;
        LimitsStay limits(job);
        rc = update_job(&message, slurm_conf.slurm_user_id, false);
    }
    xfree(desc.tres_per_node);
    xfree(desc.tres_per_job);
    xfree(desc.tres_per_task);
    xfree(desc.cpus_per_tres);
    xfree(desc.mem_per_tres);
    xfree(desc.admin_comment);
    if (rc != SLURM_SUCCESS) return rc;
    // Some releases answer success and leave the old request: read it back.
    const bool rewritten =
        asks_for(job, shape, gres) && job->details->min_nodes == grid.nodes && job->priority != 0;
    if (!rewritten) return ESLURM_INVALID_GRES;
    if (shape.memory_mb_per_gpu > 0) forget_node_memory(job);
    write_environment(job, shape);
    // sbatch sets these where it was asked for a shape; srun and frameworks read them.
    // Not from the description: update_job() takes out of it what was so before.
    if (job->batch_flag == 0) set_supplement(job, "SLURM_NTASKS", std::to_string(shape.tasks()));
    const int cpus_per_task = job->details->cpus_per_task;
    if (!has_gpu_tasks(shape))
        set_supplement(job, "SLURM_NTASKS_PER_NODE", std::to_string(shape.tasks_per_node));
    if (shape.cpus_per_gpu == 0) {  // else a step has all that each node has
        set_supplement(job, "SLURM_CPUS_PER_TASK", std::to_string(cpus_per_task));
        if (const std::string tres = cpus_as_tres(cpus_per_task); !tres.empty())
            set_supplement(job, "SLURM_TRES_PER_TASK", tres);
    }
    assign_text(&job->system_comment, shape.system_comment);
    exclude_too(job, shape.exclude);
    // Wherever Slurm may take other nodes than the planned ones.
    if (phase == Phase::released || has_a_say(job)) keep_segments(job, shape.offer.segment);
    write_mark(job, phase);
    if (auto mark = read_mark(job); shape.array != 0 && mark) {
        mark->array = shape.array;
        write_mark(job, *mark);
    }
    restore_place(job, eligible);
    return SLURM_SUCCESS;
}

ApplyResult hold_because(job_record_t* job, const std::string& why,
                         ApplyOutcome outcome = ApplyOutcome::retry) {
    hold_for_arena(job, ("Arena: " + why).c_str());
    schedule_job_save();
    return failed(outcome, why);
}

ApplyResult hold_after(job_record_t* job, int rc, const char* doing) {
    auto outcome = ApplyOutcome::retry;
    if (is_never_startable(rc)) outcome = ApplyOutcome::never;
    if (waits_for_slurmdbd(rc)) outcome = ApplyOutcome::stale;  // nothing is wrong with the shape
    return hold_because(job, fmt::format("{}: {}", doing, slurm_strerror(rc)), outcome);
}

/// Held again it would lose its place to jobs behind it, for nodes that may be free in a moment.
ApplyResult keep_released(job_record_t* job, std::int64_t segment) {
    keep_segments(job, segment);
    write_mark(job, Phase::released);
    std::string comment = text_of(job->admin_comment);
    const std::size_t at = comment.find("state=running");
    if (at != std::string::npos)
        comment.replace(at, std::size("state=running") - 1, "state=released");
    assign_text(&job->admin_comment, comment);
    note_job_change();
    schedule_job_save();
    return failed(ApplyOutcome::busy, slurm_strerror(ESLURM_NODES_BUSY));
}

/// The job's partition of that name, if it still takes the job and has all chosen nodes.
std::optional<PartitionTry> find_place(const job_record_t* job, const std::string& partition,
                                       bitstr_t* chosen) {
    for (const PartitionTry& where : partition_tries(job).list)
        if (!where.least_time && text_of(where.partition->name) == partition &&
            bit_super_set(chosen, where.partition->node_bitmap))
            return where;
    return std::nullopt;
}

/// Why a released job would wait for ever: no partition could hold the shape (Slurm would hold the
/// job for good: BadConstraints), or none would let it start. "" = one does both; else of the last
/// one. With --time-min a partition whose limit is too short for all of --time will do.
std::string never_startable(job_record_t*& job, bool& limited) {
    std::string why = text_of(reason_name(WAIT_PART_CONFIG));
    limited = true;
    for (const PartitionTry& where : partition_tries(job).list) {
        const TryingIn trying(job, where);
        why = limit_in_the_way(job);
        limited = !why.empty();
        if (limited) continue;
        set_job_features_use(job->details);
        const int rc = select_nodes_for(job, true);
        if (!is_never_startable(rc)) return {};
        why = slurm_strerror(rc);
    }
    return why;
}

/// What the main scheduling loop would check before select_nodes(), not_startable() aside: "" or
/// what is in the way.
std::string precheck(job_record_t*& job) {
    if (!job_independent(job)) return slurm_strerror(ESLURM_DEPENDENCY);
    if (license_job_test(job, time(nullptr), true) != SLURM_SUCCESS)
        return text_of(reason_name(WAIT_LICENSES));
    if (!job_array_start_test(job)) return text_of(reason_name(WAIT_ARRAY_TASK_LIMIT));
    return {};
}

/// With the lock of the job's origin cluster, as schedule() takes it; jobs outside a federation
/// need none.
int select_with_lock(job_record_t* job, bitstr_t* chosen, bool each) {
    if (fed_mgr_job_lock(job) != SLURM_SUCCESS) return ESLURM_FED_JOB_LOCK;
    const int rc = select_on(job, chosen, each);
    if (rc == SLURM_SUCCESS)
        (void)fed_mgr_job_start(job, job->start_time);
    else
        (void)fed_mgr_job_unlock(job);
    return rc;
}

int select_past_guards(job_record_t* job, bitstr_t* chosen, const Shape& shape) {
    const PassingGuards passing(shape.on_lent);
    return select_with_lock(job, chosen, shape.offer.grid.is_uneven());
}

void launched(job_record_t* job) {
    write_mark(job, Phase::started);
    restore_request(job);
    info("arena: JobId=%u started on %s: %s", job->job_id, job->nodes,
         job->admin_comment ? job->admin_comment : "");
    hand_over(job);
    rebuild_job_part_list(job);
}

ApplyResult start_locked(const Shape& shape, const std::vector<std::string>& nodes) {
    ActionLock lock;
    if (!lock) return stopping();
    job_record_t* job = find_planned(shape);
    if (!job) return failed(ApplyOutcome::stale, "the job changed while it was planned");
    if (const job_state_reason why = not_startable(job); why != WAIT_NO_REASON)
        return failed(ApplyOutcome::stale, text_of(reason_name(why)));
    bitstr_t* chosen = bitmap_of(nodes);
    if (!chosen) return failed(ApplyOutcome::stale, "a planned node is gone");
    std::unique_ptr<bitstr_t, void (*)(bitstr_t*)> owner(chosen, [](bitstr_t* b) { bit_free(b); });
    const auto where = find_place(job, shape.partition, chosen);
    if (!where)
        return failed(
            ApplyOutcome::stale,
            fmt::format("partition {} does not take it on the planned nodes", shape.partition));
    if (!can_end_in_time(job)) return failed(ApplyOutcome::stale, "it cannot end by its deadline");
    if (shape.array != 0)
        if (std::string why =
                outlast(shape.array, job, started_limit(where->partition, where->time_limit));
            !why.empty())
            return failed(ApplyOutcome::never, std::move(why));
    if (std::string why = why_not_uneven(shape, chosen); !why.empty())
        return failed(ApplyOutcome::never, std::move(why));
    job->part_ptr = where->partition;
    if (const int rc = reshape(job, shape, Phase::starting))
        return hold_after(job, rc, "rewriting");
    if (const std::string why = precheck(job); !why.empty())
        return hold_because(job, "not startable: " + why, ApplyOutcome::limited);
    if (const std::string why = limit_in_the_way(job); !why.empty())
        return hold_because(job, "not allowed: " + why, ApplyOutcome::limited);
    const std::uint32_t time_limit = std::exchange(job->time_limit, where->time_limit);
    const int rc = select_past_guards(job, chosen, shape);
    if (rc != SLURM_SUCCESS) job->time_limit = time_limit;
    // Released, Slurm would start it on whatever node.
    const bool waits_held = shape.array != 0 || shape.offer.grid.is_uneven() ||
                            (shape.offer.segment > 1 && !has_segments<JobDetails>());
    if (rc == ESLURM_NODES_BUSY && waits_held) return hold_after(job, rc, "starting");
    if (rc == ESLURM_NODES_BUSY && job->preempt_in_progress)
        return failed(ApplyOutcome::waiting_for_preemption, "Slurm is preempting for it");
    if (rc == ESLURM_NODES_BUSY) return keep_released(job, shape.offer.segment);
    if (rc == ESLURM_ACCOUNTING_POLICY) {
        const auto reason = static_cast<job_state_reason>(job->state_reason);
        return hold_because(job, "not allowed: " + text_of(reason_name(reason)),
                            ApplyOutcome::limited);
    }
    if (rc != SLURM_SUCCESS) return hold_after(job, rc, "starting");
    launched(job);
    return {};
}

}  // namespace

ApplyResult start_job(const Shape& shape, const std::vector<std::string>& nodes) {
    const LaunchWatch launch;
    const ApplyResult result = start_locked(shape, nodes);
    if (result.outcome != ApplyOutcome::done || launch.taken_up()) return result;
    take_back_start(shape.job, shape.restart);
    return stopping();
}

ApplyResult release_job(const Shape& shape) {
    ActionLock lock;
    if (!lock) return stopping();
    job_record_t* job = find_planned(shape);
    if (!job) return failed(ApplyOutcome::stale, "the job changed while it was planned");
    if (const job_state_reason why = not_startable(job); why != WAIT_NO_REASON)
        return failed(ApplyOutcome::stale, text_of(reason_name(why)));
    if (const int rc = reshape(job, shape, Phase::released))
        return hold_after(job, rc, "rewriting");
    // With a shape that a limit forbids it would wait for ever, and with it all that is kept for
    // it.
    bool limited = false;
    if (const std::string why = never_startable(job, limited); !why.empty())
        return limited ? hold_because(job, "not allowed: " + why, ApplyOutcome::limited)
                       : hold_because(job, "not startable: " + why, ApplyOutcome::never);
    info("arena: JobId=%u released: waits with %s", job->job_id, job->admin_comment);
    schedule_job_save();
    queue_job_scheduler();
    return {};
}

ApplyResult rehold_job(JobId id, std::uint32_t restart) {
    ActionLock lock;
    if (!lock) return stopping();
    job_record_t* job = find_job_record(id);
    if (!job || !arena_record(job) || job->restart_cnt != restart || !IS_JOB_PENDING(job) ||
        IS_JOB_COMPLETING(job))
        return failed(ApplyOutcome::stale, "the job is not waiting any more");
    // Somebody may have held it since it was looked at: then the hold is not ours to give a mark.
    const JobFacts facts = facts_of(job);
    if (facts.held || !waits_released(facts) || facts.mark->hold != OtherHold::none)
        return failed(ApplyOutcome::stale, "the job does not wait with Arena's shape any more");
    hold_for_arena(job, "Arena: waiting to be planned");
    schedule_job_save();
    return {};
}

ApplyResult opt_out_job(const Shape& shape, Phase left) {
    ActionLock lock;
    if (!lock) return stopping();
    job_record_t* job = find_planned(shape);
    if (!job) return failed(ApplyOutcome::stale, "the job changed");
    if (const int rc = reshape(job, shape, left)) return hold_after(job, rc, "opting out");
    info("arena: JobId=%u left to Slurm: %s", job->job_id,
         left == Phase::off ? "its comment says arena:off" : "Arena only observes");
    schedule_job_save();
    queue_job_scheduler();
    return {};
}

namespace {

/// The mark of a job that is told to save its state now. Who holds its next life goes on to do so.
JobMark checkpointing_mark(const job_record_t* job, const std::optional<JobMark>& before,
                           int signal, std::int64_t done, const Move& move) {
    const OtherHold hold = before ? before->hold : OtherHold::none;
    JobMark mark = next_mark(before, Phase::checkpointing, job->restart_cnt, hold, time(nullptr));
    mark.saved = mark.done;
    mark.done = done;
    mark.signal = signal;
    add_avoided(mark, move.avoid);
    if (move.counts) add_move(mark, mark.since);
    return mark;
}

}  // namespace

namespace {

/// Written anew with each order to save: one that was given up says nothing of the next.
void keep_stay(job_record_t* job, const std::optional<Stay>& stay) {
    const bool stays = stay && std::find(stay->nodes.begin(), stay->nodes.end(),
                                         text_of(job->batch_host)) != stay->nodes.end();
    forget_supplement(job, next_plan_variable);
    forget_supplement(job, next_nodes_variable);
    if (!stays) return;
    set_supplement(job, next_plan_variable, to_json(stay->offer));
    set_supplement(job, next_nodes_variable, join(stay->nodes, ","));
}

/// What Arena intends with a job has to be on disk before its processes act by it: slurmctld, which
/// else saves up to 5 s late, would otherwise come back with nodes that the job has given up. A
/// backup controller saves as ever: Slurm takes another save of its state beside its own for a
/// second controller there.
void save_jobs() {
    schedule_job_save();
    if (slurmctld_primary) (void)dump_all_job_state();
}

/// Slurm's own resize of a running job. Behind it no update of the job is taken until slurmdbd has
/// given it another number; one that had none before, for there is no slurmdbd, never gets one.
/// False where it has other nodes than these after it.
bool shrink_to(job_record_t* job, bitstr_t* chosen) {
    if (bit_equal(job->node_bitmap, chosen)) return true;
    if (!bit_super_set(chosen, job->node_bitmap)) return false;
    job_desc_msg_t desc;
    slurm_init_job_desc_msg(&desc);
    set_job_id(desc, job->job_id);
    desc.req_nodes = bitmap2node_name(chosen);
    const bool has_number = job->db_index != 0;
    slurm_msg_t message;
    slurm_msg_t_init(&message);
    message.data = &desc;
    {
        OwnCall own;
        LimitsStay limits(job);
        const int rc = update_job(&message, slurm_conf.slurm_user_id, false);
        if (rc != SLURM_SUCCESS)
            error("arena: JobId=%u not resized: %s", job->job_id, slurm_strerror(rc));
    }
    xfree(desc.req_nodes);
    if (!has_number) job->db_index = 0;
    return bit_equal(job->node_bitmap, chosen);
}

/// The job that asks for its plan and whose last step is over, else nullptr.
job_record_t* find_asking(const Shape& shape) {
    job_record_t* job = find_running(shape.job, shape.restart);
    const auto mark = job ? read_mark(job) : std::nullopt;
    const bool asks = mark && mark->phase == Phase::checkpointing && mark->asks;
    return asks && !has_steps(job) ? job : nullptr;
}

void go_on(job_record_t* job, const Shape& shape) {
    const JobMark mark = stays(*read_mark(job), time(nullptr));
    constexpr const char* key_variable = "ARENA_WATCH_KEY";  // that its script has
    const std::string key =
        text_of(find_variable(job->details->env_sup, job->details->env_cnt, key_variable));
    write_environment(job, shape);
    if (!key.empty()) set_supplement(job, key_variable, key);
    set_supplement(job, plan_number_variable, std::to_string(mark.plan));
    write_mark(job, mark);
    job->details->num_tasks = static_cast<std::uint32_t>(shape.tasks());
    job->details->min_nodes = job->details->max_nodes = job->node_cnt;
    job->derived_ec = 0;  // the code by which a step says that it has saved is no end of the job's
    xfree(job->state_desc);
    assign_text(&job->admin_comment, shape.admin_comment);
    info("arena: JobId=%u goes on inside itself on %s with plan %u: %s", job->job_id, job->nodes,
         mark.plan, job->admin_comment);
    note_job_change();
}

}  // namespace

ApplyResult stay_in_job(const Shape& shape, const std::vector<std::string>& nodes) {
    save_jobs();
    {
        ActionLock lock;
        if (!lock) return stopping();
        job_record_t* job = find_asking(shape);
        if (!job) return failed(ApplyOutcome::stale, "the job does not ask for a plan any more");
        bitstr_t* chosen = bitmap_of(nodes);
        if (!chosen) return failed(ApplyOutcome::stale, "a planned node is gone");
        const bool shrunk = shrink_to(job, chosen);
        bit_free(chosen);
        if (!shrunk) {
            keep_stay(job, {});
            schedule_job_save();
            return failed(ApplyOutcome::retry, "Slurm does not resize it");
        }
        go_on(job, shape);
        set_unsaved_plan(shape.job, true);
    }
    save_jobs();
    set_unsaved_plan(shape.job, false);
    return {};
}

ApplyResult checkpoint_job(JobId id, std::uint32_t restart, int signal, std::int64_t done,
                           const Move& move) {
    ActionLock lock;
    if (!lock) return stopping();
    job_record_t* job = find_running(id, restart);
    if (!job) return failed(ApplyOutcome::stale, "the job does not run any more");
    const std::optional<JobMark> before = read_mark(job);
    const int sent = leave_signal(job->warn_signal, signal);
    keep_stay(job, move.stay);
    write_mark(job, checkpointing_mark(job, before, sent, done, move));
    // As sbatch --signal does: to the steps, and to the batch shell only where that is asked for
    // (--signal=B:...) or it is all there is.
    const bool to_shell = (job->warn_flags & KILL_JOB_BATCH) != 0 || !has_steps(job);
    const std::uint16_t flags = to_shell ? KILL_JOB_BATCH : 0;
    const int rc =
        job_signal(job, static_cast<std::uint16_t>(sent), flags, slurm_conf.slurm_user_id, false);
    if (rc != SLURM_SUCCESS) {
        if (before) write_mark(job, *before);
        return failed(ApplyOutcome::retry, slurm_strerror(rc));
    }
    await_end(job);
    info("arena: JobId=%u signalled: to checkpoint for another plan", job->job_id);
    if (!move.why.empty()) assign_text(&job->state_desc, "Arena: " + move.why);
    if (!move.comment.empty())
        assign_text(&job->admin_comment,
                    with_slow_words(text_of(job->admin_comment), move.comment));
    note_job_change();
    schedule_job_save();
    return {};
}

ApplyResult note_avoided_nodes(JobId id, std::uint32_t restart,
                               const std::vector<AvoidedNode>& nodes) {
    ActionLock lock;
    if (!lock) return stopping();
    job_record_t* job = find_running(id, restart);
    std::optional<JobMark> mark = job ? read_mark(job) : std::nullopt;
    if (!mark) return failed(ApplyOutcome::stale, "the job does not run any more");
    add_avoided(*mark, nodes);
    write_mark(job, *mark);
    note_job_change();
    schedule_job_save();
    return {};
}

ApplyResult show_slowdown(JobId id, std::uint32_t restart, const std::string& words) {
    ActionLock lock;
    if (!lock) return stopping();
    job_record_t* job = find_running(id, restart);
    if (!job) return failed(ApplyOutcome::stale, "the job does not run any more");
    if (!assign_text(&job->admin_comment, with_slow_words(text_of(job->admin_comment), words)))
        return {};
    note_job_change();
    schedule_job_save();
    return {};
}

ApplyResult requeue_held_job(JobId id, std::uint32_t restart) {
    ActionLock lock;
    if (!lock) return stopping();
    job_record_t* job = find_started(id, restart);
    if (!job) return failed(ApplyOutcome::stale, "the job does not run any more");
    const std::optional<JobMark> before = read_mark(job);
    const int rc = requeue_job(job, JOB_REQUEUE_HOLD);
    if (rc != SLURM_SUCCESS) return failed(ApplyOutcome::retry, slurm_strerror(rc));
    // The count has moved on with the requeue: this mark says that the hold is ours.
    if (before && before->phase == Phase::checkpointing)
        write_mark(job, left_unsaved(*before, job->restart_cnt, time(nullptr)));
    else
        write_mark(job, Phase::checkpointing, before.value_or(JobMark{}).hold);
    info("arena: JobId=%u requeued: no checkpoint before the deadline", job->job_id);
    schedule_job_save();
    return {};
}

void note_job_progress(JobId id, double trained_s) {
    ActionLock lock;
    if (!lock) return;
    job_record_t* job = find_job_record(id);
    std::optional<JobMark> mark = job && arena_record(job) ? read_mark(job) : std::nullopt;
    if (!mark) return;
    const bool is_timed = trained_s >= 0 && IS_JOB_RUNNING(job) &&
                          (note_stay(*mark, static_cast<double>(time(nullptr)) - trained_s) ||
                           note_start(*mark, difftime(time(nullptr), job->start_time) - trained_s));
    if (mark->unsaved == 0 && !is_timed) return;
    mark->unsaved = 0;
    write_mark(job, *mark);
    schedule_job_save();
}

}  // namespace arena
