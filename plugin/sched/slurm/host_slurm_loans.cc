// SPDX-License-Identifier: GPL-2.0-or-later
// See host_slurm_loans.h. Pure copying and Slurm calls.
#include "plugin/sched/slurm/host_slurm_loans.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "plugin/sched/slurm/host_slurm_facts.h"
#include "plugin/sched/slurm/host_slurm_partitions.h"
#include "plugin/sched/slurm/host_slurm_read.h"
#include "plugin/sched/slurm/host_slurm_tables.h"

namespace arena {
namespace {

constexpr std::string_view lent_prefix = "arena_loan_", returning_prefix = "arena_reclaim_";

std::string reservation_name(const LoanFacts::Guard& guard) {
    return std::string(guard.kind == LoanGuard::lent ? lent_prefix : returning_prefix) +
           guard.lease;
}

/// What a reservation of Arena's guards, by its name; nothing for another's.
std::optional<LoanFacts::Guard> guard_of(const slurmctld_resv_t* reservation) {
    const std::string name = text_of(reservation->name);
    if (!is_of_arenas_form(reservation)) return std::nullopt;
    for (const auto& [prefix, kind] : {std::pair{lent_prefix, LoanGuard::lent},
                                       std::pair{returning_prefix, LoanGuard::returning}})
        if (name.starts_with(prefix)) return LoanFacts::Guard{kind, name.substr(prefix.size())};
    return std::nullopt;
}

struct NamedGuard {
    std::string node;
    LoanFacts::Guard guard;
};

std::vector<NamedGuard> all_guards() {
    std::vector<NamedGuard> guards;
    if (!slurm_has_reservations()) return guards;
    list_for_each_ro(
        resv_list,
        [](void* item, void* argument) {
            const auto* reservation = static_cast<const slurmctld_resv_t*>(item);
            if (const auto guard = guard_of(reservation))
                static_cast<std::vector<NamedGuard>*>(argument)->push_back(
                    {text_of(reservation->node_list), *guard});
            return 0;
        },
        &guards);
    return guards;
}

std::vector<std::string> names_of(const bitstr_t* nodes) {
    std::vector<std::string> names;
    for (int i = 0; nodes && i < node_record_count; ++i)
        if (bit_test(const_cast<bitstr_t*>(nodes), i) && node_record_table_ptr[i])
            names.push_back(text_of(node_record_table_ptr[i]->name));
    std::sort(names.begin(), names.end());
    return names;
}

struct AskedGpus {
    const job_record_t* job;
    std::int64_t gpus = 0;
    std::string type;
};

int add_asked(void* item, void* argument) {
    const auto* gres = static_cast<const gres_state_t*>(item);
    auto* asked = static_cast<AskedGpus*>(argument);
    const auto* wanted = static_cast<const gres_job_state_t*>(gres->gres_data);
    if (text_of(gres->gres_name) != "gpu" || !wanted) return 0;
    const JobDetails* details = asked->job->details;
    if (wanted->gres_per_job > 0)
        asked->gpus += static_cast<std::int64_t>(wanted->gres_per_job);
    else if (wanted->gres_per_node > 0)
        asked->gpus += static_cast<std::int64_t>(wanted->gres_per_node * details->min_nodes);
    else if (wanted->gres_per_task > 0)
        asked->gpus += static_cast<std::int64_t>(wanted->gres_per_task * details->num_tasks);
    asked->type = text_of(wanted->type_name);
    return 0;
}

/// A limit, a licence or its user is not in its way: it waits for room, or for a node that one of
/// Arena's own reservations has.
bool could_start(const job_record_t* job) { return waits_for_resources(job, WAIT_NODE_NOT_AVAIL); }

/// The walk over partitions and jobs, under a lock.
class LoanReading {
  public:
    explicit LoanReading(const LoanPlaces& places) : places_(places) {
        slots_.ours.resize(static_cast<std::size_t>(node_record_count));
        for (int i = 0; i < node_record_count; ++i)
            slots_.ours[static_cast<std::size_t>(i)] = node_record_table_ptr[i] ? i : -1;
        training_.reset(bit_alloc(node_record_count));
    }

    LoanFacts run() {
        facts_.configured = slurm_conf.last_update;
        facts_.kill_wait_s = slurm_conf.kill_wait;
        for (const std::string& name : places_.inference)
            if (const part_record_t* part = find_part_record(const_cast<char*>(name.c_str())))
                facts_.inference.emplace(name, names_of(part->node_bitmap));
        if (const part_record_t* part =
                find_part_record(const_cast<char*>(places_.partition.c_str()))) {
            facts_.has_partition = true;
            facts_.listed = names_of(part->node_bitmap);
            facts_.grace_s = part->grace_time;
        }
        facts_.preempts = preempts();
        for (const NamedGuard& guard : all_guards()) facts_.guards[guard.node] = guard.guard;
        const auto visit = [](void* item, void* argument) {
            static_cast<LoanReading*>(argument)->look_at(static_cast<job_record_t*>(item));
            return 0;
        };
        list_for_each_ro(job_list, visit, this);
        facts_.training = names_of(training_.get());
        return std::move(facts_);
    }

  private:
    [[nodiscard]] bool is_inference(const part_record_t* part) const {
        return part && facts_.inference.contains(text_of(part->name));
    }

    /// By priority of partitions, and for jobs of all inference partitions.
    [[nodiscard]] bool preempts() const {
        const part_record_t* lents = find_part_record(const_cast<char*>(places_.partition.c_str()));
        if (!lents || text_of(slurm_conf.preempt_type) != "preempt/partition_prio") return false;
        const std::uint16_t mode =
            lents->preempt_mode == NO_VAL16 ? slurm_conf.preempt_mode : lents->preempt_mode;
        if ((mode & (PREEMPT_MODE_REQUEUE | PREEMPT_MODE_CANCEL)) == 0) return false;
        return std::all_of(
            places_.inference.begin(), places_.inference.end(), [&](const std::string& name) {
                const part_record_t* part = find_part_record(const_cast<char*>(name.c_str()));
                return part && part->priority_tier > lents->priority_tier;
            });
    }

    void look_at(const job_record_t* job) {
        const bool holds =
            IS_JOB_COMPLETING(job) || (!IS_JOB_FINISHED(job) && !IS_JOB_PENDING(job));
        if (!IS_JOB_FINISHED(job)) note_partitions(job);
        if (holds && job->job_resrcs) add_running(job);
        if (could_start(job)) add_waiting(job);
    }

    void note_partitions(const job_record_t* job) {
        const std::vector<part_record_t*> parts = partitions_of(job);
        const auto is_lents = [&](const part_record_t* part) {
            return text_of(part->name) == places_.partition;
        };
        if (std::none_of(parts.begin(), parts.end(), is_lents)) return;
        for (const part_record_t* part : parts)
            if (!is_lents(part) && !is_inference(part) && part->node_bitmap)
                bit_or(training_.get(), part->node_bitmap);
    }

    void add_running(const job_record_t* job) {
        LoanFacts::Job& known = add(job);
        known.inference = is_inference(job->part_ptr);
        known.preemptable = IS_JOB_RUNNING(job) && !IS_JOB_COMPLETING(job) && job->part_ptr &&
                            text_of(job->part_ptr->name) == places_.partition;
        for (const Occupied::Part& part : occupied_by(job, slots_).parts)
            known.nodes.emplace_back(text_of(node_record_table_ptr[part.node]->name), part.gpus);
    }

    void add_waiting(const job_record_t* job) {
        const std::vector<part_record_t*> parts = partitions_of(job);
        if (std::none_of(parts.begin(), parts.end(),
                         [&](const part_record_t* part) { return is_inference(part); }))
            return;
        LoanFacts::Job& known = add(job);
        known.inference = known.pending = true;
        AskedGpus asked{.job = job, .gpus = 0, .type = {}};
        if (job->gres_list_req) list_for_each_ro(job->gres_list_req, add_asked, &asked);
        const std::int64_t tasks =
            job->array_recs ? std::max<std::int64_t>(job->array_recs->task_cnt, 1) : 1;
        for (const part_record_t* part : parts)
            if (is_inference(part)) known.partitions.push_back(text_of(part->name));
        std::sort(known.partitions.begin(), known.partitions.end());
        known.tasks = tasks;
        known.gpus = asked.gpus * tasks;
        known.gpu_type = asked.type;
        known.nodes_asked = job->details->min_nodes * tasks;
    }

    LoanFacts::Job& add(const job_record_t* job) {
        LoanFacts::Job& known = facts_.jobs.emplace_back();
        known.id = job->job_id;
        known.account = text_of(job->account);
        known.is_foreign = !arena_record(job) && !array_facts(job);
        return known;
    }

    const LoanPlaces& places_;
    LoanFacts facts_;
    NodeTable slots_;  ///< each node by Slurm's own index
    Bitmap training_;
};

/// It is in Slurm's records then.
std::string put_guard(const std::string& node, const LoanFacts::Guard& guard) {
    ActionLock lock;
    if (!lock) return "slurmctld is stopping";
    std::vector<std::string> others;
    const std::string wanted =
        guard.kind == LoanGuard::none ? std::string() : reservation_name(guard);
    bool is_there = false;
    for (const NamedGuard& known : all_guards()) {
        if (known.node != node) continue;
        if (reservation_name(known.guard) == wanted)
            is_there = true;
        else
            others.push_back(reservation_name(known.guard));
    }
    if (!wanted.empty() && !is_there) {
        const int rc = reserve_for_arena(wanted, node, text_of(slurm_conf.slurm_user_name),
                                         others.empty() ? 0 : RESERVE_FLAG_OVERLAP);
        if (rc != SLURM_SUCCESS) return slurm_strerror(rc);
    }
    for (const std::string& name : others)
        if (const int rc = drop_reservation(name); rc != SLURM_SUCCESS) return slurm_strerror(rc);
    return {};
}

}  // namespace

LoanFacts read_loan_facts(const LoanPlaces& places) {
    SlurmLock lock(SlurmLock::Kind::read);
    return LoanReading(places).run();
}

std::string set_partition_nodes(const std::string& partition,
                                const std::vector<std::string>& nodes) {
    SlurmLock lock(SlurmLock::Kind::partitions);
    if (controller_stops()) return "slurmctld is stopping";
    update_part_msg_t change;
    slurm_init_part_desc_msg(&change);
    std::string name = partition, list = join(nodes, ",");
    change.name = name.data();
    change.nodes = list.data();
    const int rc = update_part(&change, false);
    if (rc != SLURM_SUCCESS) return slurm_strerror(rc);
    schedule_part_save();
    return {};
}

std::string guard_node(const std::string& node, const LoanFacts::Guard& guard) {
    if (std::string why = put_guard(node, guard); !why.empty()) return why;
    // Whoever waits for the node is looked at now, not with the next pass.
    if (guard.kind == LoanGuard::none) queue_job_scheduler();
    if (guard.kind == LoanGuard::none || dump_all_resv_state() == SLURM_SUCCESS) return {};
    return "Slurm could not save its reservations (slurmctld's log says why)";
}

std::string save_all_nodes() {
    if (controller_stops() || dump_all_node_state() == SLURM_SUCCESS) return {};
    return "Slurm could not save its nodes (slurmctld's log says why)";
}

PassingGuards::PassingGuards(bool passes) {
    if (!passes || !slurm_has_reservations()) return;
    list_for_each(
        resv_list,
        [](void* item, void* argument) {
            auto* reservation = static_cast<slurmctld_resv_t*>(item);
            const auto guard = guard_of(reservation);
            if (guard && guard->kind == LoanGuard::lent && reservation->node_bitmap)
                static_cast<decltype(nodes_)*>(argument)->emplace_back(
                    reservation, std::exchange(reservation->node_bitmap, nullptr));
            return 0;
        },
        &nodes_);
}

PassingGuards::~PassingGuards() {
    for (const auto& [reservation, nodes] : nodes_) reservation->node_bitmap = nodes;
}

}  // namespace arena
