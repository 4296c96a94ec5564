// SPDX-License-Identifier: GPL-2.0-or-later
// Slurm's records -> plain values. Nodes and allocations are read under one lock, which takes the
// same short time for each job; our own jobs follow in slices.
#include "plugin/sched/slurm/host_slurm_read.h"

#include <chrono>
#include <climits>
#include <cmath>
#include <unordered_map>

#include "plugin/common/slurm_layout.h"
#include "plugin/sched/host/end_comment.h"
#include "plugin/sched/slurm/host_slurm_arrays.h"
#include "plugin/sched/slurm/host_slurm_facts.h"
#include "plugin/sched/slurm/host_slurm_tables.h"
#include "reports/next_plan.h"

namespace arena {
namespace {

/// GPUs are counted by the nodes' own state.
void subtract(const Occupied& held, Snapshot& snapshot) {
    for (const Occupied::Part& part : held.parts)
        give_to_node(snapshot.nodes, part.node, 0, -part.cpus, -part.memory_mb);
}

/// The same for all with priority/basic, but for who was lifted: see by_nice().
double rank_by_nice(const job_record_t* job) {
    return by_nice(static_cast<std::int64_t>(job->details->nice) -
                   static_cast<std::int64_t>(NICE_OFFSET));
}

/// One text for all jobs that carry it, within one reading.
class RecordTexts {
  public:
    explicit RecordTexts(const Host::KnowsRecord& knows) : knows_(knows) {}

    RecordText of(JobId job, std::string_view record, std::string_view comment) {
        RecordText view;
        view.tag = RecordText::tag_of(record);
        if (knows_(job, view.tag, comment)) return view;
        auto& text = texts_[view.tag];
        if (!text || *text != record) text = std::make_shared<const std::string>(record);
        view.text = text;
        return view;
    }

  private:
    const Host::KnowsRecord& knows_;
    std::unordered_map<std::uint64_t, std::shared_ptr<const std::string>> texts_;
};

/// A whole number, as Slurm's own: compared with a fraction an equal job would stand behind.
double would_be_priority(const job_record_t* job, const BasicQueue* queue) {
    if (queue) return queue->place_of(job);
    if (!job->prio_factors) return 0;
    const PriorityFactors* f = job->prio_factors;
    const double sum = f->priority_age + f->priority_assoc + f->priority_fs + f->priority_js +
                       f->priority_part + f->priority_qos -
                       (static_cast<double>(f->nice) - static_cast<double>(NICE_OFFSET)) +
                       (static_cast<double>(f->priority_site) - static_cast<double>(NICE_OFFSET));
    return std::floor(std::max(sum, 1.0));
}

void read_allocation(const job_record_t* job, const NodeTable& table, JobView& view) {
    const bitstr_t* nodes = job->job_resrcs ? job->job_resrcs->node_bitmap : nullptr;
    if (!nodes || !(IS_JOB_RUNNING(job) || IS_JOB_COMPLETING(job))) return;
    view.nodes = entries_held(occupied_by(job, table), table);
    view.nodes_open = true;
    for (std::size_t i = 0; i < table.ours.size(); ++i)
        if (bit_test(const_cast<bitstr_t*>(nodes), static_cast<bitoff_t>(i)) && table.ours[i] >= 0)
            view.nodes_open = view.nodes_open && node_is_up(node_record_table_ptr[i]);
}

/// The same as long as its user changes nothing: a task is compared with what it was rounds ago.
JobOwner owner_of(const job_record_t* job) {
    const JobDetails* details = job->details;
    JobOwner owner{text_of(job->account), job->qos_id};
    for (const std::string& word :
         {text_of(details->features), text_of(details->prefer), text_of(details->req_nodes),
          own_excludes(job), text_of(job->resv_name), std::to_string(details->pn_min_tmp_disk)})
        owner.nodes += word + "|";
    return owner;
}

std::string plan_of(const job_record_t* job) {
    const char* offer = find_variable(job->details->env_sup, job->details->env_cnt, "ARENA_PLAN");
    return offer ? offer : "";
}

double limit_of(const job_record_t* job) {
    const std::uint32_t limit = started_limit(job->part_ptr, job->time_limit);
    return limit != INFINITE && limit != NO_VAL ? 60.0 * limit : 0;
}

EndedJob ended_job(const job_record_t* job) {
    EndedJob ended;
    ended.job.id = job->job_id;
    ended.job.facts = facts_of(job);
    ended.job.user_id = job->user_id;
    ended.job.account = text_of(job->account);
    ended.job.offer_json = plan_of(job);
    ended.job.start_s = static_cast<double>(job->start_time);
    ended.job.time_limit_s = limit_of(job);
    ended.end_s = static_cast<double>(job->end_time);
    ended.by_limit = IS_JOB_TIMEOUT(job);
    return ended;
}

void read_running(const job_record_t* job, JobView& view) {
    const auto kept = [&](std::string_view name) {
        return text_of(find_variable(job->details->env_sup, job->details->env_cnt, name));
    };
    const auto& mark = view.facts.mark;
    if (mark && mark->plan > 0 && mark->phase == Phase::started)
        view.plan_s = static_cast<double>(mark->since);
    view.batch_host = text_of(job->batch_host);
    view.has_steps = has_steps(job);
    if (!mark || mark->phase != Phase::checkpointing) return;
    view.next_json = kept(next_plan_variable);
    view.next_nodes = kept(next_nodes_variable);
}

JobView read_job(job_record_t* job, const char* record, NodeSets& sets, RecordTexts& texts,
                 const BasicQueue* queue) {
    JobView view;
    view.id = job->job_id;
    view.facts = facts_of(job);
    view.array = array_place(job);
    if (view.array.id != 0) view.owner = owner_of(job);
    if (view.facts.mark && view.facts.mark->array != 0)
        view.array_gpu_s = number_in(text_of(job->admin_comment), share_key);
    view.user_id = job->user_id;
    view.account = text_of(job->account);
    view.comment = text_of(job->comment);
    view.basis = basis_of(job);
    view.record = texts.of(view.id, record, view.comment);
    view.reason = text_of(job->state_desc);
    view.partition = text_of(job->partition);
    view.name = text_of(job->name);
    view.offer_json = plan_of(job);
    view.submit_s = static_cast<double>(job->details->submit_time);
    view.eligible_s = static_cast<double>(eligible_since(job));
    view.start_s = static_cast<double>(job->start_time);
    if (IS_JOB_RUNNING(job)) read_running(job, view);
    view.time_limit_s = limit_of(job);
    view.priority = would_be_priority(job, queue);
    const auto reason = static_cast<job_state_reason>(job->state_reason);
    view.eligible = !deferred(view.reason) && !is_deferral(reason);
    const Placed& placed = sets.of(job);
    view.node_set = placed.node_set;
    view.slots = placed.slots;
    view.no_place = placed.no_place;
    view.no_nodes = placed.no_nodes;
    view.is_cut = placed.is_cut;
    view.rank = queue == nullptr ? view.priority : rank_by_nice(job);
    view.rank += tier_size * placed.tier;
    view.priority += tier_size * placed.tier;
    view.configuring = IS_JOB_CONFIGURING(job);
    view.excluded = sets.ours(added_excludes(job).get());
    return view;
}

/// A job as the nodes were read. One of ours that is not the same when its own turn comes must not
/// be taken for what it has become: its nodes are not in the snapshot as it has them then.
struct Seen {
    JobId id = 0;
    std::uint32_t state = 0, restart = 0;
    bool operator==(const Seen&) const = default;
};
Seen seen_now(const job_record_t* job) { return {job->job_id, job->job_state, job->restart_cnt}; }

struct JobWalk {
    ClusterView* view;
    const NodeTable* table;
    HostMode mode;
    /// Pending, waiting for nothing but resources; Arena jobs that opted out are ordinary ones,
    /// too.
    std::vector<job_record_t*> ordinary;
    std::vector<Seen> all;
};

bool opted_out(const job_record_t* job) {
    const auto mark = read_mark(job);
    return mark && mark->phase == Phase::off;
}

/// By the wall clock when it is first asked, then by the monotonic one.
double since_boot(const ClusterView& view) {
    static time_t boot = 0;
    static double booted_s = 0;
    if (std::exchange(boot, slurmctld_config.boot_time) != slurmctld_config.boot_time)
        booted_s = view.steady_s - std::max(view.snapshot.time_s - static_cast<double>(boot), 0.0);
    return view.steady_s - booted_s;
}

/// Of each job as little as the snapshot needs: a record lies in many places, and the locks are
/// held for the whole list.
int visit_job(void* item, void* argument) {
    auto* job = static_cast<job_record_t*>(item);
    auto* walk = static_cast<JobWalk*>(argument);
    walk->all.push_back(seen_now(job));
    // A completing job holds its resources, even when it is over or already pending again.
    const bool holds = IS_JOB_COMPLETING(job) || (!IS_JOB_FINISHED(job) && !IS_JOB_PENDING(job));
    if (job->job_resrcs && holds) {
        walk->view->running.push_back(occupied_by(job, *walk->table));
        subtract(walk->view->running.back(), walk->view->snapshot);
    }
    if (waits_for_resources(job) && (!planned_record(job, walk->mode) || opted_out(job)))
        walk->ordinary.push_back(job);
    return 0;
}

CarrierView carrier_of(const job_record_t* job, const char* request) {
    CarrierView carrier;
    carrier.id = job->job_id;
    carrier.user_id = job->user_id;
    carrier.request = request;
    carrier.node = text_of(job->nodes);
    carrier.finished = IS_JOB_FINISHED(job) && !IS_JOB_COMPLETING(job);
    carrier.cancelled = IS_JOB_CANCELLED(job);
    carrier.start_s = static_cast<double>(job->start_time);
    carrier.end_s = static_cast<double>(job->end_time);
    carrier.for_user = carrier_for_user(job);
    return carrier;
}

/// The reading of a cluster, from its first lock to its last.
class Reading {
  public:
    Reading(const Host::KnowsRecord& knows, const std::string& lent_in, HostMode mode,
            double since_s)
        : sets_(view_, table_, lent_in), texts_(knows), mode_(mode), since_s_(since_s) {}

    /// Nodes, partitions, who runs where, who stands first, and which jobs there are; under a lock.
    void read_tables() {
        view_.snapshot.time_s = static_cast<double>(time(nullptr));
        view_.steady_s =
            std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
                .count();
        view_.preemption_wait_s = slurm_conf.kill_wait + slurm_conf.msg_timeout;
        view_.memory_tracked = memory_is_tracked();
        stamp_ = {};
        table_ = read_nodes(view_);
        read_partitions(view_, table_);
        if (basic_priority()) queue_.emplace();
        JobWalk walk{.view = &view_, .table = &table_, .mode = mode_, .ordinary = {}, .all = {}};
        list_for_each_ro(job_list, visit_job, &walk);
        read_ordinary(walk.ordinary);
        all_ = std::move(walk.all);
    }

    /// Reads our jobs and carriers until `end`, at least one, under a lock; false when all have
    /// been.
    bool read_some(std::chrono::steady_clock::time_point end) {
        const bool same_tables = stamp_ == TablesStamp{};
        if (next_ == 0) read_asked_nodes(same_tables);
        for (bool first = true; next_ < all_.size(); first = false) {
            if (!first && std::chrono::steady_clock::now() >= end) return true;
            read_one(all_[next_++], same_tables);
        }
        return false;
    }

    ClusterView take() { return std::move(view_); }

  private:
    /// What is read without correcting a record; the rest follows in read_asked_nodes().
    void read_ordinary(const std::vector<job_record_t*>& waiting) {
        for (const auto& [job, very_first] :
             first_of_each_partition(waiting, ordinary_of_a_partition)) {
            OrdinaryJob read = ordinary_job(job, view_.snapshot.time_s);
            const double tier = tier_size * tier_of(partition_tries(job).list);
            read.rank = tier + (queue_ ? rank_by_nice(job) : job->priority);
            read.priority = tier + job->priority;
            ordinary_.push_back({seen_now(job), very_first,
                                 std::unique_ptr<bitstr_t, FreeBitmap>(partition_nodes(job))});
            view_.ordinary.push_back(std::move(read));
        }
    }

    /// Of one that has changed meanwhile nothing is known but that it stands there.
    void read_asked_nodes(bool same_tables) {
        for (std::size_t i = 0; i < ordinary_.size(); ++i) {
            OrdinaryJob& read = view_.ordinary[i];
            job_record_t* job = same_tables ? find_job_record(read.id) : nullptr;
            read.is_known = job != nullptr && seen_now(job) == ordinary_[i].seen;
            if (read.is_known) read.node_set = sets_.of(job).node_set;
        }
    }

    void read_one(const Seen& seen, bool same_tables) {
        job_record_t* job = find_job_record(seen.id);
        if (!job) return;
        if (job->details && job->details->submit_time < slurmctld_config.boot_time &&
            !goes_on_after_reconfigure())
            view_.since_recovery_s = since_boot(view_);
        const char* record = planned_record(job, mode_);
        const char* request = record ? nullptr : carrier_request(job);
        if (request) view_.carriers.push_back(carrier_of(job, request));
        const char* array = record || request ? nullptr : array_facts(job);
        if (array) view_.arrays.push_back(array_carrier_of(job, array));
        if (record && (IS_JOB_COMPLETE(job) || IS_JOB_TIMEOUT(job)) && job->details &&
            static_cast<double>(job->end_time) >= since_s_)
            view_.ended.push_back(ended_job(job));
        if (mode_ == HostMode::observes && record) note_over(job);
        if (!record || IS_JOB_FINISHED(job)) return;
        if (!same_tables || seen_now(job) != seen) {
            JobView& changing = view_.jobs.emplace_back();
            changing.id = seen.id;
            changing.facts = facts_of(job);
            changing.changing = true;
            return;
        }
        JobView& view = view_.jobs.emplace_back(
            read_job(job, record, sets_, texts_, queue_ ? &*queue_ : nullptr));
        view.as_if = arena_record(job) == nullptr;
        read_allocation(job, table_, view);
        note_ordinary_ahead(job, view);
    }

    /// Of one that only waited the end is when it was cancelled.
    void note_over(const job_record_t* job) {
        if (!IS_JOB_FINISHED(job) || static_cast<double>(job->end_time) < since_s_) return;
        const bool ran = job->start_time > 0 && job->start_time <= job->end_time && job->nodes;
        view_.over.push_back({job->job_id, ran ? static_cast<double>(job->start_time) : 0,
                              static_cast<double>(job->end_time)});
    }

    void note_ordinary_ahead(const job_record_t* record, JobView& job) const {
        if (view_.ordinary.empty() || job.facts.state != HostJobState::pending) return;
        const std::unique_ptr<bitstr_t, FreeBitmap> nodes(partition_nodes(record));
        for (std::size_t i = 0; i < view_.ordinary.size(); ++i) {
            if (!ordinary_[i].very_first) continue;
            const OrdinaryJob& other = view_.ordinary[i];
            const bool before = other.priority > job.priority ||
                                (other.priority == job.priority && other.id < submitted_as(job));
            if (before && bit_overlap_any(ordinary_[i].partition_nodes.get(), nodes.get()))
                job.ordinary_start_s = std::min(job.ordinary_start_s, other.start_s);
        }
    }

    ClusterView view_;
    NodeTable table_;
    TablesStamp stamp_;
    NodeSets sets_;
    RecordTexts texts_;
    std::optional<BasicQueue> queue_;
    struct Ordinary {
        Seen seen;
        bool very_first;
        std::unique_ptr<bitstr_t, FreeBitmap> partition_nodes;
    };
    std::vector<Ordinary> ordinary_;  ///< by view_.ordinary
    std::vector<Seen> all_;
    std::size_t next_ = 0;
    HostMode mode_;
    double since_s_;
};

constexpr int all_records = INT_MAX, jobs_looked_at = 64;
constexpr std::size_t npos = std::string::npos;

std::string fault_of(const part_record_t* part) { return layout_fault(part); }

std::string fault_of(const job_record_t* job) {
    std::string fault = layout_fault(job);
    const bool known = !fault.empty() || (find_job_record(job->job_id) == job &&
                                          (!job->part_ptr || job->part_ptr->magic == PART_MAGIC));
    return known ? fault : "job_record_t does not look as in the headers";
}

std::string fault_of_nodes() {
    for (int i = 0; i < node_record_count; ++i) {
        const node_record_t* node = node_record_table_ptr[i];
        if (!node) continue;
        std::string fault = layout_fault(node);
        if (!fault.empty()) return fault;
        if (node->index != static_cast<std::uint32_t>(i) || !node->config_ptr ||
            find_node_record(node->name) != node)
            return "node_record_t does not look as in the headers";
    }
    return {};
}

/// Of the first `most` records of the list.
template <typename Record>
std::string first_fault(SlurmList list, int most) {
    struct Walk {
        int left;
        std::string fault;
    } walk{most, {}};
    list_for_each_ro(
        list,
        [](void* item, void* argument) {
            auto* w = static_cast<Walk*>(argument);
            w->fault = fault_of(static_cast<const Record*>(item));
            return w->fault.empty() && --w->left > 0 ? 0 : -1;
        },
        &walk);
    return walk.fault;
}

/// Facts end in time, and fences with them, jobs or not.
bool nodes_say_something() {
    const ReservedNodes reserved = nodes_reserved_by_arena();
    for (int i = 0; i < node_record_count; ++i) {
        const node_record_t* node = node_record_table_ptr[i];
        const auto record = node ? node_record(node, reserved) : std::nullopt;
        if (record && (record->fence != Fence::none || record->extra.find("arena:v") != npos))
            return true;
    }
    return false;
}

}  // namespace

bool slurm_has_work(HostMode mode) {
    if (!job_list) return false;
    const auto ours = [](void* item, void* key) -> int {
        const auto* job = static_cast<const job_record_t*>(item);
        return planned_record(job, *static_cast<const HostMode*>(key)) || carrier_request(job) ||
                       array_facts(job)
                   ? 1
                   : 0;
    };
    return list_find_first_ro(job_list, ours, &mode) != nullptr || nodes_say_something();
}

bool slurm_has_reservations() { return resv_list && list_count(resv_list) > 0; }

bool slurm_layout_is_sound(std::string* what) {
    *what = fault_of_nodes();
    if (what->empty() && part_list) *what = first_fault<part_record_t>(part_list, all_records);
    if (what->empty() && job_list) *what = first_fault<job_record_t>(job_list, jobs_looked_at);
    return what->empty();
}

ClusterView read_cluster(const Host::KnowsRecord& knows, const std::string& lent_in, HostMode mode,
                         std::int64_t slice_ms, double since_s) {
    Reading reading(knows, lent_in, mode, since_s);
    {
        SlurmLock lock(SlurmLock::Kind::read);
        reading.read_tables();
    }
    for (bool more = true; more && !controller_stops();) {
        // Asking what a reservation leaves to a job corrects both records on the way.
        const bool writes = slurm_has_reservations();
        SlurmLock lock(writes ? SlurmLock::Kind::write : SlurmLock::Kind::read);
        if (!writes && slurm_has_reservations()) continue;  // made a moment ago
        more = reading.read_some(std::chrono::steady_clock::now() +
                                 std::chrono::milliseconds(slice_ms));
    }
    return reading.take();
}

}  // namespace arena
