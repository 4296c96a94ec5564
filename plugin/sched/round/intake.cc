// SPDX-License-Identifier: GPL-2.0-or-later
// The first stage of a round: see stages.h. What a job needs at once, whatever is decided, becomes
// an order; what is to be said of it, a note.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "plugin/sched/arrays/array_tasks.h"
#include "plugin/sched/host/move_end.h"
#include "plugin/sched/nodes/avoidance.h"
#include "plugin/sched/round/launch.h"
#include "plugin/sched/round/running.h"
#include "plugin/sched/round/shares.h"
#include "plugin/sched/round/stages.h"
#include "policy/fabric.h"
#include "policy/work_left.h"

namespace arena {
namespace {

/// A controller that died forgot its last jobs and gives their ids again, while nodes still end the
/// forgotten copies: a batch launch under such an id drains the node. Seen up to 5 s after a
/// restart.
constexpr double recovery_s = 8;

/// Jobs that have their nodes first, then by their place in the queue.
/// By when it was submitted, and as what.
auto submission(const JobView& job) {
    return std::make_tuple(job.submit_s, submitted_as(job), job.array.task);
}

bool before(const JobView& a, const JobView& b) {
    const auto place = [](const JobView& job) {
        const bool waits = job.facts.state == HostJobState::pending;
        return std::make_tuple(waits, waits ? -job.priority : 0, submission(job));
    };
    return place(a) < place(b);
}

bool offered(const std::vector<Offer>& offers, const std::string& gpu_type) {
    return std::any_of(offers.begin(), offers.end(),
                       [&](const Offer& offer) { return offer.grid.gpu_type == gpu_type; });
}

/// What it would have first: nearly every job could have its GPUs in pieces, too.
bool takes_many_nodes(const std::vector<Offer>& offers) { return offers.front().grid.nodes > 1; }

bool is_by_slurm(const PartitionSlot& slot) { return slot.by_slurm; }

bool is_lent(const PartitionSlot& slot, const Config& config) {
    return config.loan_enabled && slot.partition == config.loan_partition;
}

/// Beside its GPUs it leaves its members theirs; it takes no lent nodes.
void take_lead(JobState& state, const ArrayLead& lead, const JobView& job, const Config& config,
               QueueOrder order) {
    for (std::size_t i = 0; i < job.slots.size(); ++i)
        if (is_lent(job.slots[i], config)) state.places[i].max_nodes = 0;
    state.min_gpus = std::min(state.min_gpus, lead.shape.grid.gpus());
    state.cpus_per_gpu = std::max<std::int64_t>(lead.cpus_per_gpu, 1);
    if (lead.memory_mb_per_gpu > 0) state.memory_mb_per_gpu = lead.memory_mb_per_gpu;
    if (order != QueueOrder::priority) return;
    // What is started is its siblings' pipeline, which runs as long as the longest of them may and
    // gives way to nobody.
    state.time_limit_s = static_cast<double>(lead.limit_minutes) * 60;
    state.elastic = false;
    state.settles_s = 0;
}

/// Who keeps a job from being planned, and what ends that.
struct Holder {
    std::string state, way_out;
};

Holder holder_of(const JobView& job) {
    const auto& mark = job.facts.mark;
    if (mark && mark->newer)
        return {"held by others",
                "a later version of Arena planned it: install that again, or cancel the job"};
    const std::string release = fmt::format("scontrol release {} lets it be planned", job.id);
    const OtherHold hold = mark ? mark->hold : OtherHold::none;
    if (hold == OtherHold::user) return {"held by its user", release};
    if (hold == OtherHold::admin) return {"held by an administrator", release};
    return {"held by others", job.reason.empty() ? release : job.reason};
}

class Intake {
  public:
    Intake(ClusterView view, Books& books);
    Round run(const Stopping& stopping);

  private:
    void avoid_nodes();
    void keep_profile_run(const JobView& job);
    void consider(const JobView& job);
    void follow_running(const JobView& job, const SharedRequest& wanted);
    void follow_checkpointing(const JobView& job, const SharedRequest& wanted, const Offer& plan);
    [[nodiscard]] std::optional<Action> stay_of(const JobView& job) const;
    void add_staying(const JobView& job, const SharedRequest& wanted, const Offer& plan,
                     const Action& stay);
    [[nodiscard]] std::optional<Stay> stay_by(const JobView& job, const EffectiveRequest& wanted,
                                              const std::vector<Offer>& offers);
    void follow_owner(const JobView& job, const SharedRequest& wanted);
    [[nodiscard]] std::optional<Move> imposed_move(const JobView& job);
    [[nodiscard]] std::string why_not_to_leave(const JobView& job, const SharedRequest& wanted,
                                               const Offer& plan, bool counts);
    [[nodiscard]] bool leaves(const JobView& job, const SharedRequest& wanted, const Offer& plan,
                              Move move);
    [[nodiscard]] std::vector<std::string> slow_nodes(const JobView& job, const JobState& state);
    [[nodiscard]] Grid grid_of(const JobView& job, const Grid& planned) const;
    void add_running(const JobView& job, const SharedRequest& wanted, const Offer& plan);
    void add_returning(const JobView& job, const SharedRequest& wanted, const Offer& plan);
    void note_avoided(const JobView& job, JobStatus& status) const;
    void note_facts(const JobView& job, const SharedRequest& wanted);
    [[nodiscard]] bool can_hold_elsewhere(const JobView& job, const EffectiveRequest& wanted,
                                          const Offer& plan);
    [[nodiscard]] bool can_hold(const JobState& state, std::uint32_t node_set,
                                const EffectiveRequest& wanted, const std::vector<Offer>& offers);
    void follow_unplannable(const JobView& job);
    void follow_pending(const JobView& job, const SharedRequest& wanted);
    void follow_array(const JobView& job);
    void add_siblings();
    [[nodiscard]] bool follow_sibling(const JobView& job, const SharedRequest& wanted);
    void join_array(const JobView& job, const Request& request, JobId carrier);
    [[nodiscard]] SiblingPrice price_siblings(const JobView& job, const EffectiveRequest& wanted,
                                              std::int64_t members);
    [[nodiscard]] bool wait_for_profile(const JobView& job, const EffectiveRequest& wanted);
    [[nodiscard]] ProfileNeed profile_need(const JobView& job, const EffectiveRequest& wanted,
                                           const SitePool& pool) const;
    [[nodiscard]] bool worth_waiting(const JobView& job, const ProfileAnswer& answer);
    void add_waiting(const JobView& job, const SharedRequest& wanted);
    void add_waiting(const JobView& job, const SharedRequest& wanted, OfferList offers,
                     const ArrayLead* lead = nullptr);
    [[nodiscard]] std::string why_no_plan(const JobView& job, const EffectiveRequest& wanted,
                                          const OfferList& none);

    [[nodiscard]] const std::vector<SitePool>& pools_of(const JobView& job) {
        return books_.offers.pools(view_, job);
    }
    [[nodiscard]] OfferList offers_of(const JobView& job, const EffectiveRequest& wanted) {
        return books_.offers.offers(job.user_id, wanted.request, wanted.fingerprint, pools_of(job));
    }
    [[nodiscard]] OfferList known_offers(const JobView& job, const EffectiveRequest& wanted);
    [[nodiscard]] double done(const JobView& job);
    [[nodiscard]] double plan_age_s(const JobView& job) {
        return books_.clocks.age_s(job.id, job.plan_since_s());
    }
    [[nodiscard]] JobState state_of(const JobView& job, const EffectiveRequest& wanted);
    void take_belief(JobState& state, const JobView& job, const EffectiveRequest& wanted,
                     const std::vector<Offer>& offers, double run_s = 0);
    [[nodiscard]] static bool is_left_to_slurm(const JobView& job);
    [[nodiscard]] SharedOffers for_slurm(const SharedOffers& offers, const JobView& job) const;
    void take_part(const JobView& job, const SharedRequest& wanted, JobState state,
                   OfferList offers, Role role);
    void sort_jobs();
    void add_ordinary();
    void note(Note note) { round_.notes.push_back(std::move(note)); }
    void order(Order::Kind kind, const JobView& job) {
        round_.orders.push_back({.kind = kind, .job = &job});
    }
    void wait_held(const JobView& job, std::string text, Note::Shown shown = Note::Shown::ours);

    Round round_;
    ClusterView& view_ = round_.view;
    Books& books_;
    const Config& config_;
    NodePools node_pools_{view_};
};

Intake::Intake(ClusterView view, Books& books) : books_(books), config_(books.site.config) {
    view_ = std::move(view);
    std::stable_sort(view_.jobs.begin(), view_.jobs.end(), before);
    books_.offers.new_round();
    books_.clocks.new_round(view_);
    books_.blocked.new_round(view_);
    if (books_.measurements.new_round(view_.steady_s)) books_.recall_observed();
    books_.checks.take_in(view_);
    books_.nodes.new_round(view_, &books_.checks);
    books_.loans.new_round(view_);
    books_.loans.impose(books_.imposed);
    books_.arrays.new_round(view_);
    books_.boots.new_round(view_);
    avoid_nodes();
    move_arrays(view_, books_);
    books_.checks.start(view_);
    books_.profiles.update(view_);
    round_.snapshot = view_.snapshot;
    const double now_s = round_.snapshot.time_s;
    round_.options = books_.options;
    round_.options.window_s = books_.decided_s > 0 ? std::max(now_s - books_.decided_s, 0.0) : 0;
    books_.decided_s = now_s;
}

void Intake::avoid_nodes() {
    AvoidedNodes avoided = books_.nodes.avoidance();
    for (const auto& [node, power] : view_.power)
        if (power == NodePower::unbooted) avoided.nodes.push_back(node);
    std::sort(avoided.nodes.begin(), avoided.nodes.end());
    Avoidance avoidance(view_, avoided, books_.leaving);
    for (JobView& job : view_.jobs)
        if (!job.changing) avoidance.restrict(job);
}

Round Intake::run(const Stopping& stopping) {
    if (config_.array_enabled) add_siblings();
    for (const JobView& job : view_.jobs)
        if (!stopping()) consider(job);
    if (!stopping()) books_.profiles.end_unwanted();
    // Profile runs that began meanwhile have taken nodes.
    round_.snapshot.nodes = free_nodes(round_);
    for (const Occupied& held : view_.running)
        if (!round_.planned.contains(held.job)) round_.snapshot.others.push_back(held);
    sort_jobs();
    add_ordinary();
    return std::move(round_);
}

/// Behind all others in the snapshot: Slurm's order is theirs by priority.
void Intake::add_ordinary() {
    static_assert(ordinary_of_a_partition >= most_ordinary);
    if (round_.options.order != QueueOrder::priority) return;
    for (const OrdinaryJob& job : view_.ordinary) {
        auto seen = arena::state_of(job, view_.snapshot);
        if (!seen) continue;
        round_.offers.emplace(job.id, std::move(seen->second));
        round_.snapshot.jobs.push_back(std::move(seen->first));
    }
}

/// As they were submitted, whether they run or wait: of two of the same second the first in the
/// snapshot stands first (order_of()).
void Intake::sort_jobs() {
    std::vector<PlannedJob*> sorted;
    for (auto& [id, planned] : round_.planned) sorted.push_back(&planned);
    std::sort(sorted.begin(), sorted.end(), [](const PlannedJob* a, const PlannedJob* b) {
        return std::make_tuple(submission(*a->view), a->view->id) <
               std::make_tuple(submission(*b->view), b->view->id);
    });
    std::vector<JobState> jobs;
    jobs.reserve(sorted.size());
    for (PlannedJob* planned : sorted) {
        jobs.push_back(std::move(round_.snapshot.jobs[planned->state]));
        planned->state = jobs.size() - 1;
    }
    round_.snapshot.jobs = std::move(jobs);
}

/// Whatever keeps it from being planned now: who is still in the queue may want its numbers, and so
/// may those behind one that has started without them.
void Intake::keep_profile_run(const JobView& job) {
    if (books_.profiles.running() == 0 || job.facts.state == HostJobState::finished) return;
    SharedRequest wanted;
    if (!job.changing)
        wanted = books_.requests.get(job.id, job.record, job.comment);
    else if (const auto known = books_.statuses.find(job.id); known != books_.statuses.end())
        wanted = known->second.wanted;
    if (wanted && wanted->problem.empty() && !wanted->off)
        books_.profiles.keep_for(wanted->fingerprint, wanted->request,
                                 job.facts.state == HostJobState::pending);
}

void Intake::consider(const JobView& job) {
    keep_profile_run(job);
    if (job.changing) return;
    const SharedRequest wanted = books_.requests.get(job.id, job.record, job.comment);
    const bool saves = job.facts.mark && job.facts.mark->phase == Phase::checkpointing;
    const bool ends = job.facts.state == HostJobState::completing && saves;
    if (job.facts.state == HostJobState::running || ends) return follow_running(job, wanted);
    if (job.facts.state == HostJobState::suspended && books_.loans.must_end(job.id))
        order(Order::Kind::requeue, job);
    if (job.facts.state != HostJobState::pending) return;
    ++round_.pending;
    note_facts(job, wanted);
    JobStatus& status = books_.statuses[job.id];
    status.wanted = wanted;
    if (!plannable(job.facts)) return follow_unplannable(job);
    if (!wanted->problem.empty()) return wait_held(job, wanted->problem);
    status.pools = books_.offers.shared_pools(view_, job);
    follow_pending(job, wanted);
}

/// What is so of it whether it waits or runs.
void Intake::note_facts(const JobView& job, const SharedRequest& wanted) {
    JobStatus& status = books_.statuses[job.id];
    status.uid = job.user_id;
    status.slowdown = slowdown_of(wanted->request, config_);
    status.unsaved = unsaved_words(job.facts.mark ? job.facts.mark->unsaved : 0);
    note_avoided(job, status);
}

void Intake::note_avoided(const JobView& job, JobStatus& status) const {
    status.avoids.clear();
    for (const NodeIndex index : job.avoided) {
        if (view_.snapshot.nodes[index].same_node) continue;
        const std::string& node = view_.snapshot.nodes[index].name;
        const std::string why = books_.nodes.why(node);
        const bool unbooted = view_.is(NodePower::unbooted, index);
        status.avoids.push_back(node + ": " +
                                (unbooted      ? "it did not boot"
                                 : why.empty() ? "it was to leave it"
                                               : why));
    }
}

/// A released one is held again, to be told why.
void Intake::wait_held(const JobView& job, std::string text, Note::Shown shown) {
    if (!job.facts.held) order(Order::Kind::hold, job);
    note(waits_for(job, std::move(text), shown));
}

void Intake::follow_pending(const JobView& job, const SharedRequest& wanted) {
    if (wanted->off) {
        round_.orders.push_back(
            {.kind = Order::Kind::leave_to_slurm,
             .job = &job,
             .shape = plain_shape(job, wanted->request, config_, pools_of(job))});
        return;
    }
    if (!job.eligible)
        return note({.job = &job, .state = "waiting", .reason = job.reason, .keeps_chosen = true});
    if (!job.no_place.empty()) return wait_held(job, job.no_place, Note::Shown::slurms);
    if (view_.since_recovery_s < recovery_s) {
        if (job.facts.held) note(waits_for(job, "waiting a moment after the restart of slurmctld"));
        return;
    }
    if (job.array.left > 0) return follow_array(job);
    if (!job.no_nodes.empty()) return wait_held(job, job.no_nodes, Note::Shown::slurms);
    // A job that already waits with a shape keeps it while a missing type is measured.
    if (job.facts.held && wait_for_profile(job, *wanted)) return;
    if (!follow_sibling(job, wanted)) add_waiting(job, wanted);
}

/// The record itself never starts.
void Intake::follow_array(const JobView& job) {
    const std::int64_t tasks = tasks_to_split(job, view_.jobs, config_);
    if (tasks > 0)
        round_.orders.push_back({.kind = Order::Kind::split, .job = &job, .tasks = tasks});
    const auto first = books_.statuses.find(first_of_waiting_tasks(job, view_.jobs));
    const std::string earlier = first == books_.statuses.end() ? "" : first->second.reason;
    note(waits_for(job, why_tasks_wait(job, config_, earlier)));
}

// ---- tasks of arrays that may share a pipeline ----

/// Whoever may start, before anybody is asked what becomes of him.
void Intake::add_siblings() {
    for (const JobView& job : view_.jobs) {
        if (job.changing || job.array.id == 0 || !job.facts.held || !plannable(job.facts)) continue;
        if (!job.eligible || !job.no_place.empty()) continue;
        const SharedRequest wanted = books_.requests.get(job.id, job.record, job.comment);
        const bool is_sibling = wanted->request.array && wanted->problem.empty() && !wanted->off;
        if (is_sibling) books_.arrays.add(job, wanted->request, wanted->fingerprint);
    }
}

/// On each type of GPU that it may have; where a pipeline wins, on the one where that is fastest.
SiblingPrice Intake::price_siblings(const JobView& job, const EffectiveRequest& wanted,
                                    std::int64_t members) {
    SiblingPrice best;
    // What lends them wants them back in time, and its members hold no GPUs that could be.
    std::vector<PartitionSlot> own = job.slots;
    std::erase_if(own, [&](const PartitionSlot& slot) { return is_lent(slot, config_); });
    if (own.empty() && !job.slots.empty()) {
        ArrayOffers none;
        none.why = "not bound: lent nodes hold no pipeline";
        best.offers = std::make_shared<const ArrayOffers>(std::move(none));
        return best;
    }
    double best_rate = -1;
    for (const SitePool& pool : *books_.offers.shared_pools(view_, job.node_set, own)) {
        if (!allows_type(wanted.request, pool.gpu_type)) continue;
        const auto offers = books_.offers.array_offers(job.user_id, wanted.request,
                                                       wanted.fingerprint, pool, members);
        if (!offers) return {};
        const auto& pipeline = offers->ways[static_cast<std::size_t>(ArrayWay::pipeline)];
        const double rate = offers->binds ? pipeline.rate_per_s() : 0;
        if (rate <= best_rate) continue;
        best_rate = rate;
        best = {
            .offers = offers,
            .gpu_type = pool.gpu_type,
            .gpus_per_node = pool.gpus_per_node,
            .cpus_per_gpu = pool.cpus_per_gpu,
            .memory_mb_per_gpu = pool.memory_mb_per_gpu,
            .own_cpus_per_gpu = wanted.request.cpus_per_gpu,
            .member_memory_mb = wanted.request.mem_per_node_mb > 0
                                    ? wanted.request.mem_per_node_mb
                                    : wanted.request.mem_per_cpu_mb * config_.array_member_cpus};
    }
    if (best_rate < 0) best.offers = std::make_shared<const ArrayOffers>();
    return best;
}

/// False: it runs as any other job.
bool Intake::follow_sibling(const JobView& job, const SharedRequest& wanted) {
    if (!config_.array_enabled || !wanted->request.array || !job.facts.held) return false;
    const auto answer = books_.arrays.ask(job, wanted->request, [&](std::int64_t members) {
        return price_siblings(job, *wanted, members);
    });
    books_.statuses[job.id].array = answer.text;
    switch (answer.fate) {
        case ArrayBook::Fate::ordinary:
            return false;
        case ArrayBook::Fate::waits:
            note(waits_for(job, answer.text));
            return true;
        case ArrayBook::Fate::joins:
            join_array(job, wanted->request, answer.carrier);
            return true;
        case ArrayBook::Fate::leads:
            break;
    }
    round_.leads.emplace(job.id, answer.lead);
    books_.statuses[job.id].array = answer.lead->offer.reason;
    add_waiting(job, wanted, std::make_shared<const std::vector<Offer>>(1, answer.lead->shape),
                answer.lead.get());
    return true;
}

/// As a job of its own beside its carrier's first rank.
void Intake::join_array(const JobView& job, const Request& request, JobId carrier) {
    const ArrayBook::Carrier& into = *find_carrier(books_.arrays.carriers(), carrier);
    books_.statuses[job.id].array = words_of_carrier(books_.arrays.carriers(), carrier);
    if (!books_.clocks.may_launch(job))
        return note(waits_for(job, "waiting a moment after its requeue"));
    Shape shape;
    shape.job = job.id;
    shape.restart = job.facts.restart;
    shape.basis = job.basis;
    shape.array = carrier;
    shape.offer.grid.gpus_per_node = 0;
    if (std::string why = books_.blocked.why_not(job.id, shape.offer); !why.empty())
        return note(waits_for(job, std::move(why)));
    shape.cpus_per_task = into.facts.member_cpus;
    shape.memory_mb_per_node = into.facts.member_memory_mb;
    shape.partition = into.facts.partition;
    shape.environment = member_environment(job, into.facts, request);
    shape.environment.push_back(given_entry(shape.environment, request));
    shape.admin_comment = member_comment(carrier, job, into.facts);
    shape.system_comment = fmt::format(
        "arena array: {}", into.view.nodes.empty() ? std::string() : into.view.nodes.front());
    round_.orders.push_back({.kind = Order::Kind::join, .job = &job, .shape = std::move(shape)});
    note(waits_for(job, fmt::format("joins JobId={}, which trains its siblings", carrier)));
}

/// Slurm preempts for a job that we tried to start, or somebody else holds it.
void Intake::follow_unplannable(const JobView& job) {
    const auto& mark = job.facts.mark;
    if (!mark || mark->newer || mark->phase != Phase::starting || job.facts.held) {
        // The next survey takes one that came after this round's.
        if (classify(job.facts) != Step::none) return;
        const Holder holder = holder_of(job);
        return note(
            {.job = &job, .state = holder.state, .reason = holder.way_out, .keeps_chosen = true});
    }
    note({.job = &job, .state = "waiting for preemption", .keeps_chosen = true});
    const double waited = books_.clocks.age_s(job.id, static_cast<double>(mark->since));
    if (waited > view_.preemption_wait_s) order(Order::Kind::give_up, job);
}

// ---- jobs that run ----

/// Checkpoints an elastic job whose owner asks for another shape; others the policy may move.
void Intake::follow_running(const JobView& job, const SharedRequest& wanted) {
    ++round_.running;
    note_facts(job, wanted);
    const std::optional<Offer>& plan = books_.requests.plan(job.id, job.offer_json);
    const auto& mark = job.facts.mark;
    const bool ours = mark && !mark->newer && plan;
    const bool ends = books_.loans.must_end(job.id);
    if (ends && job.facts.state == HostJobState::running) order(Order::Kind::requeue, job);
    if (ours && mark->phase == Phase::checkpointing)
        return follow_checkpointing(job, wanted, *plan);
    if (mark && mark->array != 0)
        books_.statuses[job.id].array = words_of_carrier(books_.arrays.carriers(), mark->array);
    note({.job = &job,
          .state = "running",
          .chosen = plan ? std::optional<Chosen>(*plan) : std::nullopt});
    if (ends || !ours || mark->phase != Phase::started || !wanted->problem.empty()) return;
    if (auto move = imposed_move(job); move && leaves(job, wanted, *plan, *std::move(move))) return;
    if (wanted->request.elastic && !inside_request(wanted->request, *plan))
        follow_owner(job, wanted);
    else
        add_running(job, wanted, *plan);
}

void Intake::follow_owner(const JobView& job, const SharedRequest& wanted) {
    if (!ready_for_signals(job.configuring, plan_age_s(job))) return;
    const OfferList offers = offers_of(job, *wanted);
    if (offers && !offers->empty()) {
        round_.orders.push_back({.kind = Order::Kind::save_state,
                                 .job = &job,
                                 .done = static_cast<std::int64_t>(done(job)),
                                 .move = {.stay = stay_by(job, *wanted, *offers)}});
        return;
    }
    note({.job = &job,
          .state = "running",
          .reason = offers ? "keeps running: no plan fits what its comment asks for"
                           : "keeps running: what its comment asks for waits to be planned",
          .keeps_chosen = true});
}

/// The fastest of the offers for which it need not be started anew.
std::optional<Stay> Intake::stay_by(const JobView& job, const EffectiveRequest& wanted,
                                    const std::vector<Offer>& offers) {
    const std::optional<Offer>& plan = books_.requests.plan(job.id, job.offer_json);
    std::optional<Stay> best;
    for (const Offer& offer : offers) {
        if (best && offer.estimate.iteration_s >= best->offer.estimate.iteration_s) continue;
        const auto nodes = nodes_to_stay_on(job, wanted.request, *plan, offer, {}, view_.snapshot);
        if (nodes.empty()) continue;
        best = Stay{offer, {}};
        for (const NodeIndex node : nodes) best->nodes.push_back(view_.snapshot.nodes[node].name);
    }
    return best;
}

/// Of a job that somebody wants off its nodes, or that asked to leave some.
std::optional<Move> Intake::imposed_move(const JobView& job) {
    if (const auto at = books_.imposed.find(job.id); at != books_.imposed.end()) return at->second;
    const auto asked = books_.leaving.find(job.id);
    const auto& wishes = asked == books_.leaving.end() ? std::vector<AvoidedNode>() : asked->second;
    std::vector<std::string> nodes =
        nodes_to_leave(job, wishes, view_.snapshot, books_.nodes.avoidance());
    // It said since that all is well there, or a check did.
    std::erase_if(nodes, [&](const auto& node) { return books_.slowdown.is_over(job.id, node); });
    if (nodes.empty()) return std::nullopt;
    Move move = leave_slow(nodes, books_.nodes);
    move.avoid = wishes;
    // With what it has cost so far.
    if (!books_.slowdown.events(job.id).empty()) move.comment = books_.slowdown.words_of(job.id);
    return move;
}

/// One that no other node can hold would be back where it was, and be told to leave again. Who
/// imposes a move on it has to know.
std::string Intake::why_not_to_leave(const JobView& job, const SharedRequest& wanted,
                                     const Offer& plan, bool counts) {
    const double run_s = plan_age_s(job);
    std::string why = arena::why_not_to_leave(job, wanted->request, counts, run_s,
                                              view_.snapshot.time_s, config_);
    if (!why.empty() || books_.imposed.contains(job.id)) return why;
    if (!can_hold_elsewhere(job, *wanted, plan)) why = "no other node can hold it";
    return why;
}

/// On nodes that lack one of its own at least.
bool Intake::can_hold_elsewhere(const JobView& job, const EffectiveRequest& wanted,
                                const Offer& plan) {
    const JobState state = state_of(job, wanted);
    if (!job.avoided.empty() && can_hold(state, job.node_set, wanted, {plan})) return true;
    return std::any_of(job.eased.begin(), job.eased.end(), [&](const AvoidingChoice& choice) {
        const bool leaves_one =
            std::any_of(choice.avoided.begin(), choice.avoided.end(), [&](NodeIndex index) {
                return std::find(job.nodes.begin(), job.nodes.end(), index) != job.nodes.end();
            });
        return leaves_one && can_hold(state, choice.node_set, wanted, {plan});
    });
}

/// False where it stays: its mark says that it should leave, and each round tries again.
bool Intake::leaves(const JobView& job, const SharedRequest& wanted, const Offer& plan, Move move) {
    const std::string why_not = why_not_to_leave(job, wanted, plan, move.counts);
    const bool goes = why_not.empty();
    note({.job = &job,
          .state = "running",
          .reason = goes ? move.why : move.why + ", but stays: " + why_not,
          .keeps_chosen = true});
    if (goes || !is_noted(move.avoid, job, view_.snapshot.time_s))
        round_.orders.push_back({.kind = goes ? Order::Kind::leave : Order::Kind::note_avoided,
                                 .job = &job,
                                 .done = static_cast<std::int64_t>(done(job)),
                                 .move = std::move(move)});
    return goes;
}

/// Those that it should leave although it did not ask to, for it would gain by it.
std::vector<std::string> Intake::slow_nodes(const JobView& job, const JobState& state) {
    std::vector<std::string> names;
    double factor = 1;
    for (const NodeIndex index : job.nodes) {
        const auto& avoided = books_.nodes.avoided();
        if (!std::binary_search(avoided.begin(), avoided.end(), index)) continue;
        const NodeState& node = view_.snapshot.nodes[index];
        names.push_back(node.name);
        factor = std::max(factor, node.slow);
    }
    const bool cools = plan_age_s(job) < config_.cooldown_s;
    const bool gains = !names.empty() && !cools && !job.avoided.empty() &&
                       pays_to_leave(state, factor, books_.options.restart) &&
                       has_room_elsewhere(state, view_.snapshot);
    return gains ? names : std::vector<std::string>();
}

/// Requeues a job that did not exit before the deadline. Until it is back it counts as waiting and
/// its GPUs as free, so that the decision that moved it stands.
void Intake::follow_checkpointing(const JobView& job, const SharedRequest& wanted,
                                  const Offer& plan) {
    note({.job = &job, .state = "checkpointing", .chosen = plan});
    const double waited = books_.clocks.age_s(job.id, static_cast<double>(job.facts.mark->since));
    const bool deaf = waited > config_.checkpoint_grace_s && !books_.loans.must_end(job.id);
    const bool runs = job.facts.state == HostJobState::running;
    if (runs && deaf) order(Order::Kind::requeue, job);
    if (const auto stay = stay_of(job); stay && runs && !deaf && wanted->problem.empty())
        return add_staying(job, wanted, plan, *stay);
    if (wanted->problem.empty() && !wanted->off && job.facts.mark->hold == OtherHold::none &&
        job.nodes_open)
        add_returning(job, wanted, plan);
}

/// What it was told to save its state for, where it goes on inside itself.
std::optional<Action> Intake::stay_of(const JobView& job) const {
    if (job.next_json.empty()) return std::nullopt;
    const auto offer = parse_offer_json(job.next_json);
    if (!offer) return std::nullopt;
    Action stay{.kind = ActionKind::resize, .job = job.id, .offer = *offer};
    stay.reason = "goes on inside itself";
    const auto names = split(job.next_nodes, ',');
    for (const NodeIndex node : job.nodes)
        if (std::find(names.begin(), names.end(), view_.snapshot.nodes[node].name) != names.end())
            stay.nodes.push_back(node);
    if (std::ssize(stay.nodes) != offer->grid.nodes) return std::nullopt;
    return stay;
}

/// It runs by its next plan as far as the others are concerned, and gives the other nodes back.
void Intake::add_staying(const JobView& job, const SharedRequest& wanted, const Offer& plan,
                         const Action& stay) {
    if (job.facts.mark->asks && !job.has_steps)
        round_.orders.push_back({.kind = Order::Kind::stay, .job = &job, .action = stay});
    OfferList offers = known_offers(job, *wanted);
    JobState state = state_of(job, *wanted);
    const double run_s = books_.clocks.age_s(job.id, job.start_s);
    state.phase = JobPhase::running;
    state.elastic = false;
    state.current = stay.offer;
    state.nodes = stay.nodes;
    ++state.restarts;
    state.start_s = view_.snapshot.time_s - run_s;
    if (state.time_limit_s > 0) state.time_limit_s = std::max(state.time_limit_s - run_s, 1.0);
    take_belief(state, job, *wanted, *offers, run_s);
    for (const NodeIndex node : job.nodes) {
        if (std::find(stay.nodes.begin(), stay.nodes.end(), node) != stay.nodes.end()) continue;
        const std::int64_t gpus = plan.grid.gpus_per_node;
        round_.returns.push_back(
            {node, gpus, gpus * state.cpus_per_gpu, gpus * state.memory_mb_per_gpu});
    }
    round_.offers.emplace(job.id, offers);
    take_part(job, wanted, std::move(state), std::move(offers), Role::runs);
}

/// Of an uneven one what it has of each node, which Slurm alone knows for certain.
Grid Intake::grid_of(const JobView& job, const Grid& planned) const {
    if (!planned.is_uneven()) return planned;
    const auto held = std::find_if(view_.running.begin(), view_.running.end(),
                                   [&](const Occupied& other) { return other.job == job.id; });
    std::vector<std::int64_t> split;
    for (const NodeIndex node : job.nodes)
        for (std::size_t p = 0; held != view_.running.end() && p < held->parts.size(); ++p)
            if (held->parts[p].node == node && held->parts[p].gpus > 0)
                split.push_back(held->parts[p].gpus);
    Grid grid = planned;
    if (!split.empty() && split.size() == job.nodes.size()) set_split(grid, std::move(split));
    return grid;
}

void Intake::add_running(const JobView& job, const SharedRequest& wanted, const Offer& plan) {
    OfferList offers = known_offers(job, *wanted);
    JobState state = state_of(job, *wanted);
    const double now_s = view_.snapshot.time_s;
    books_.patience.erase(job.id);
    state.phase = JobPhase::running;
    state.elastic = movable(job, wanted->request, plan_age_s(job), now_s, config_);
    state.current = plan;
    ++state.restarts;  // Slurm does not count the start that it runs from
    // What runs and what it could have instead are compared by what is known now.
    for (const Offer& now : *offers)
        if (is_same_offer(now, plan))
            state.current = at_span(now, span_of(view_.snapshot, job.nodes));
    state.current->grid = grid_of(job, plan.grid);
    books_.statuses[job.id].span = words_of_span(view_.snapshot, job.nodes);
    books_.statuses[job.id].iteration_s = state.current->estimate.iteration_s;
    books_.statuses[job.id].offers = offers;
    state.nodes = job.nodes;
    // Whoever sets the wall clock back does not make it one that has yet to start.
    const double run_s = books_.clocks.age_s(job.id, job.start_s);
    state.start_s = now_s - run_s;
    // One that nothing but time keeps from being moved will give way.
    if (state.settles_s > 0 && !state.elastic) {
        const JobMark& mark = *job.facts.mark;
        const bool will = wanted->request.elastic && mark.phase == Phase::started &&
                          mark.hold == OtherHold::none && job.nodes_open;
        state.settles_s =
            will ? settles_s(mark.moves, mark.unsaved, now_s, config_, plan_age_s(job)) : 0;
    }
    if (state.time_limit_s > 0) state.time_limit_s = std::max(state.time_limit_s - run_s, 1.0);
    take_belief(state, job, *wanted, *offers, run_s);
    const std::vector<std::string> slow = slow_nodes(job, state);
    if (!slow.empty() && leaves(job, wanted, plan, leave_slow(slow, books_.nodes))) return;
    round_.offers.emplace(job.id, books_.blocked.to_move_to(job.id, offers, plan));
    take_part(job, wanted, std::move(state), std::move(offers), Role::runs);
}

void Intake::add_returning(const JobView& job, const SharedRequest& wanted, const Offer& plan) {
    OfferList offers = known_offers(job, *wanted);
    JobState state = state_of(job, *wanted);
    take_belief(state, job, *wanted, *offers);
    const Grid grid = grid_of(job, plan.grid);
    for (std::size_t n = 0; n < job.nodes.size(); ++n) {
        const std::int64_t gpus = grid.gpus_on(n);
        round_.returns.push_back(
            {job.nodes[n], gpus, gpus * state.cpus_per_gpu, gpus * state.memory_mb_per_gpu});
    }
    round_.offers.emplace(job.id, offers);
    take_part(job, wanted, std::move(state), std::move(offers), Role::returns);
}

// ---- jobs that wait ----

ProfileNeed Intake::profile_need(const JobView& job, const EffectiveRequest& wanted,
                                 const SitePool& pool) const {
    ProfileNeed need;
    need.request = &wanted.request;
    need.fingerprint = wanted.fingerprint;
    need.job = job.id;
    need.user_id = job.user_id;
    need.gpu_type = pool.gpu_type;
    need.hardware = pool.hardware;
    need.partition = job.partition;
    need.gpus_per_node = pool.gpus_per_node;
    need.max_gpus = wanted.request.max_gpus > 0 ? std::min(wanted.request.max_gpus, pool.max_gpus)
                                                : pool.max_gpus;
    need.nodes = &view_.snapshot.node_sets[job.node_set];
    need.eligible_s = job.eligible_s;
    need.ordinary_start_s = job.ordinary_start_s;
    need.taken = &round_.ahead.taken;
    need.wait_until_s = books_.clocks.profile_wait_since_s(job.id) + config_.profile_max_wait_s;
    return need;
}

/// A run that others keep from beginning, or that begins late, is for later jobs.
bool Intake::worth_waiting(const JobView& job, const ProfileAnswer& answer) {
    if (answer.state != ProfileState::running) return false;
    const double since_s = books_.clocks.profile_wait_since_s(job.id);
    return std::min(answer.began_s, view_.steady_s) <= since_s + config_.profile_max_wait_s;
}

bool Intake::wait_for_profile(const JobView& job, const EffectiveRequest& wanted) {
    std::string waiting;
    std::string& unmeasured = books_.statuses[job.id].unmeasured;
    unmeasured.clear();
    if (!config_.profile_enabled) return false;
    const OfferList offers = offers_of(job, wanted);
    if (!offers) return false;  // it waits to be planned
    for (const SitePool& pool : pools_of(job)) {
        // What no plan uses need not be measured: a pin that fits nothing took GPUs from everybody.
        if (!offered(*offers, pool.gpu_type)) continue;
        const ProfileNeed need = profile_need(job, wanted, pool);
        if (books_.profiles.would_take(need, view_)) look_ahead(round_, *books_.policy);
        const ProfileAnswer answer = books_.profiles.require(need, view_);
        const bool waits = worth_waiting(job, answer);
        if (waits && waiting.empty()) waiting = answer.text;
        if (!waits && answer.state != ProfileState::ready)
            unmeasured += fmt::format(
                "{}{}: {}{}", unmeasured.empty() ? "" : "; ", pool.gpu_type,
                answer.state == ProfileState::running ? "not waited for any longer: " : "",
                answer.text);
    }
    if (waiting.empty()) return false;
    note(waits_for(job, waiting));
    return true;
}

/// Asked of the planner once for each list: it takes as long as planning did, and may be in its
/// queue.
std::string Intake::why_no_plan(const JobView& job, const EffectiveRequest& wanted,
                                const OfferList& none) {
    JobStatus& status = books_.statuses[job.id];
    if (status.none != none || status.none_why.empty()) {
        status.none = none;
        status.none_why = books_.offers.why_none(job.user_id, wanted.request, pools_of(job));
    }
    return status.none_why.empty() ? "no plan fits" : status.none_why;
}

/// Whether these nodes could hold one of the offers, were they all free.
bool Intake::can_hold(const JobState& state, std::uint32_t node_set, const EffectiveRequest& wanted,
                      const std::vector<Offer>& offers) {
    const NodeNeeds needs = needs_of(state, wanted.request);
    return can_hold_any(node_pools_.of(node_set, false, needs), offers);
}

void Intake::add_waiting(const JobView& job, const SharedRequest& wanted) {
    add_waiting(job, wanted, offers_of(job, *wanted));
}

void Intake::add_waiting(const JobView& job, const SharedRequest& wanted, OfferList offers,
                         const ArrayLead* lead) {
    books_.statuses[job.id].offers = offers;
    // One that waits with a shape keeps it meanwhile.
    if (!offers) return note(waits_for(job, "waits to be planned"));
    if (offers->empty()) {
        const std::string why = why_no_plan(job, *wanted, offers);
        return wait_held(job, job.is_cut ? "on the nodes that reservations leave it, " + why : why);
    }
    if (job.facts.held && books_.blocked.rests(job.id))
        return note(waits_for(job, books_.blocked.resting_why(job.id)));
    JobView& changed = view_.jobs[static_cast<std::size_t>(&job - view_.jobs.data())];
    const std::size_t pairs = job.eased.size();
    if (!takes_many_nodes(*offers)) avoid_no_pair(changed);
    JobState state = state_of(job, *wanted);
    while (!can_hold(state, job.node_set, *wanted, *offers) && ease_avoidance(changed))
        state = state_of(job, *wanted);
    if (job.eased.size() != pairs) note_avoided(job, books_.statuses[job.id]);
    if (!can_hold(state, job.node_set, *wanted, *offers)) {
        if (!can_hold(state, view_.whole_set(job.node_set), *wanted, *offers))
            return wait_held(job, why_no_node(job, wanted->request, view_, books_.site));
        avoid_nothing(view_, changed);
        note_avoided(job, books_.statuses[job.id]);
        state = state_of(job, *wanted);
    }
    take_belief(state, job, *wanted, *offers);
    if (lead != nullptr) take_lead(state, *lead, job, config_, books_.options.order);
    if (!fits_node_limits(job, *offers))
        return wait_held(job, "PartitionNodeLimit", Note::Shown::slurms);
    const SharedOffers open = books_.blocked.open(job.id, offers);
    if (open.empty()) return note(waits_for(job, books_.blocked.why(job.id)));
    const Role role = books_.clocks.may_launch(job) ? Role::waits : Role::returns;
    if (role == Role::returns) note(waits_for(job, "waiting a moment after its requeue"));
    if (!job.facts.held) state.current = books_.requests.plan(job.id, job.offer_json);
    if (const auto told = books_.patience.find(job.id); told != books_.patience.end())
        state.patient_until_s = told->second;
    const bool is_left = is_left_to_slurm(job);
    const SharedOffers startable = is_left ? for_slurm(open, job) : open;
    const bool is_arenas = is_left && !can_hold(state, job.node_set, *wanted, startable.get());
    // Where Slurm is to start it, it takes no part: what it were given would stay idle.
    if (is_arenas && job.ordinary_ahead())
        return note(waits_for(job, "waits behind an ordinary job"));
    if (is_arenas && std::all_of(job.slots.begin(), job.slots.end(), is_by_slurm))
        return note(waits_for(
            job,
            "Slurm itself is to start it, and keeps neither unequal pieces nor parts of racks"));
    for (std::size_t i = 0; is_arenas && i < job.slots.size(); ++i)
        if (job.slots[i].by_slurm) state.places[i].max_nodes = 0;
    round_.offers.emplace(job.id, is_arenas ? open : startable);
    if (role == Role::waits && !job.ordinary_ahead()) ++round_.ahead.ready;
    take_part(job, wanted, std::move(state), std::move(offers), role);
}

/// Slurm may be the one to start it.
bool Intake::is_left_to_slurm(const JobView& job) {
    return job.ordinary_ahead() || std::any_of(job.slots.begin(), job.slots.end(), is_by_slurm);
}

/// Slurm knows no pieces that differ, and no segments before 24.05 nor where another network than
/// the cluster's places a partition's jobs: that one may have no blocks.
SharedOffers Intake::for_slurm(const SharedOffers& offers, const JobView& job) const {
    const bool keeps_segments =
        books_.keeps_segments &&
        std::none_of(job.slots.begin(), job.slots.end(),
                     [](const PartitionSlot& slot) { return slot.place.other_network; });
    const auto is_arenas = [&](const Offer& offer) {
        return offer.grid.is_uneven() || (offer.segment > 1 && !keeps_segments);
    };
    const std::vector<Offer>& all = offers.get();
    if (std::none_of(all.begin(), all.end(), is_arenas)) return offers;
    std::vector<Offer> left = all;
    std::erase_if(left, is_arenas);
    return left;
}

// ---- what the policy is told ----

/// Of a job that has its nodes: none as long as it waits to be planned, and then nothing moves it.
OfferList Intake::known_offers(const JobView& job, const EffectiveRequest& wanted) {
    OfferList offers = offers_of(job, wanted);
    return offers ? offers : std::make_shared<const std::vector<Offer>>();
}

double Intake::done(const JobView& job) {
    const bool runs = job.facts.mark && job.facts.mark->phase == Phase::started;
    const double now_s = runs ? job.plan_since_s() + plan_age_s(job) : view_.snapshot.time_s;
    return done_iterations(job, books_.requests.plan(job.id, job.offer_json), now_s,
                           books_.options.restart);
}

JobState Intake::state_of(const JobView& job, const EffectiveRequest& wanted) {
    const double now_s = view_.snapshot.time_s;
    JobState state;
    state.id = job.id;
    state.priority = books_.options.order == QueueOrder::priority ? job.rank : job.priority;
    state.submit_s = job.submit_s;
    // Its place in Slurm's queue counts from the requeue; the aging bound from when it could first
    // run.
    const bool again = job.facts.mark && job.facts.mark->waited_since > 0;
    const double waited_since_s =
        again ? static_cast<double>(job.facts.mark->waited_since) : job.eligible_s;
    state.age_s = std::max(now_s - std::min(waited_since_s, job.eligible_s), 0.0);
    state.min_gpus = wanted.request.min_gpus;
    state.max_gpus = wanted.request.max_gpus > 0 ? wanted.request.max_gpus : INT64_MAX;
    take_share(state, config_, wanted.request, pools_of(job));
    state.node_set = job.node_set;
    for (const PartitionSlot& slot : job.slots) state.places.push_back(slot.place);
    state.done_iterations = done(job);
    state.time_limit_s = job.time_limit_s;
    state.elastic = wanted.request.elastic;
    state.behind_ordinary = job.facts.state == HostJobState::pending && job.ordinary_ahead();
    const auto& mark = job.facts.mark;
    if (state.elastic && books_.options.order == QueueOrder::priority)
        state.settles_s = mark ? settles_s(mark->moves, mark->unsaved, now_s, config_)
                               : settles_s({}, 0, now_s, config_);
    state.restarts = job.facts.restart;
    if (!mark || mark->took.empty()) return state;
    const auto& plan = books_.requests.plan(job.id, job.offer_json);
    state.moves_took_s =
        moves_took(*mark, books_.options.restart.launch_s(plan ? plan->grid.gpus() : 1));
    books_.statuses[job.id].moves_took_s = state.moves_took_s;
    return state;
}

/// Of a job whose state is known else. `offers`: none of one that waits to be planned and has its
/// nodes.
void Intake::take_belief(JobState& state, const JobView& job, const EffectiveRequest& wanted,
                         const std::vector<Offer>& offers, double run_s) {
    const auto steps = static_cast<double>(wanted.request.steps);
    if (round_.options.order == QueueOrder::value) {
        if (steps > 0) set_work_left(state, steps);
        return;
    }
    std::vector<Offer> current;
    if (offers.empty() && state.current) current.push_back(*state.current);
    const std::vector<Offer>& possible = offers.empty() ? current : offers;
    if (possible.empty()) return;
    JobStatus& status = books_.statuses[job.id];
    status.account = job.account;
    status.work =
        believe(wanted.request, job.time_limit_s, possible,
                books_.history.past_use(job.user_id, job.account), books_.options.restart);
    const Offer& plan = state.phase == JobPhase::running ? *state.current : possible.front();
    set_believed_work(state, *status.work, run_s, plan.estimate.iteration_s);
}

void Intake::take_part(const JobView& job, const SharedRequest& wanted, JobState state,
                       OfferList offers, Role role) {
    round_.planned.emplace(
        job.id, PlannedJob{&job, wanted, std::move(offers), role, round_.snapshot.jobs.size()});
    round_.snapshot.jobs.push_back(std::move(state));
}

}  // namespace

Round intake(ClusterView view, Books& books, const Stopping& stopping) {
    return Intake(std::move(view), books).run(stopping);
}

}  // namespace arena
