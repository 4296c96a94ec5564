// SPDX-License-Identifier: GPL-2.0-or-later
// See scheduler.h. The order inside a round matters: what Slurm did since the last one is taken in
// first, then what each job wants, then one decision for all, then its application job by job.
#include "plugin/sched/round/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <tuple>

#include "base/text.h"
#include "plugin/sched/round/shares.h"
#include "policy/arena/slurm_policies.h"

namespace arena {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// How long an offer that Slurm refused for the moment is left out.
constexpr double blocked_s = 30;
/// One that no node can hold: until something changes, or so long. Of such refusals in a row each
/// makes the job rest twice as long, so that its offers are tried less and less often.
constexpr double hopeless_s = 3600;
/// How long an offer is tried whose nodes Slurm calls busy, before it is left out.
constexpr double busy_s = 10;
/// What is planned but cannot be applied so many rounds in a row is left out, and said.
constexpr int stale_rounds = 3;

/// As Slurm's main loop says it.
constexpr const char* down_words =
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions";

bool asks_to_hold(const std::string& record) {
    auto request = parse_record(record);
    return request && request->user_hold;
}

/// Jobs that have their nodes first, then by their place in the queue.
bool before(const JobView& a, const JobView& b) {
    const auto place = [](const JobView& job) {
        const bool waits = job.facts.state == HostJobState::pending;
        return std::make_tuple(waits, waits ? -job.priority : 0, job.submit_s, job.id);
    };
    return place(a) < place(b);
}

bool same_shape(const Offer& a, const Offer& b) { return a.grid == b.grid && a.plan == b.plan; }

}  // namespace

Scheduler::Scheduler(Host& host, Config config, std::vector<GpuType> hardware,
                     Calibration calibration, PlanLimits limits)
    : host_(host),
      config_(std::move(config)),
      site_{config_, hardware},
      measurements_(host, config_, hardware),
      profiles_(host, config_, measurements_),
      offers_book_(config_, std::move(hardware), std::move(calibration), measurements_,
                   std::move(limits)),
      policy_(find_slurm_policy(config_.policy)) {
    assert(policy_ && "an unknown policy is refused when arena.yaml is loaded");
    policy_options_.reserve_depth = config_.reserve_depth;
    policy_options_.objective = parse_objective(config_.objective).value_or(Objective::jct);
    policy_options_.restart = {config_.restart_checkpoint_s, config_.restart_per_gpu_s,
                               config_.restart_launch_cap_s};
    recall_observed();
}

/// What jobs reported before this life, from the store.
void Scheduler::recall_observed() {
    if (!config_.use_reports) return;
    for (ObservedRun& run : measurements_.observed()) (void)offers_book_.recall(std::move(run));
}

const std::vector<SitePool>& Scheduler::pools_of(const JobView& job) {
    return offers_book_.pools(view_, job);
}

void Scheduler::round() {
    const auto start = Clock::now();
    stats_.survey_ms = stats_.collect_ms = stats_.plan_ms = stats_.decide_ms = stats_.apply_ms = 0;
    host_.survey(asks_to_hold);
    stats_.survey_ms = ms_since(start);
    if (host_.stopping()) return;
    auto mark = Clock::now();
    view_ = host_.collect([this](JobId job, std::uint64_t tag, std::string_view comment) {
        return wishes_.knows(job, tag, comment);
    });
    std::stable_sort(view_.jobs.begin(), view_.jobs.end(), before);
    stats_.collect_ms = ms_since(mark);
    mark = Clock::now();
    planned_.clear();
    returns_.clear();
    taken_.clear();
    ready_ = ready_seen_ = looks_ = 0;
    reasons_.clear();
    pools_with_.clear();
    offers_.clear();
    offers_book_.new_round();
    note_settled();
    note_returned();
    if (measurements_.new_round(view_.steady_s)) recall_observed();
    profiles_.update(view_);
    snapshot_ = view_.snapshot;
    snapshot_.generation = stats_.rounds;
    policy_options_.window_s = decided_s_ > 0 ? std::max(snapshot_.time_s - decided_s_, 0.0) : 0;
    decided_s_ = snapshot_.time_s;
    stats_.jobs_pending = stats_.jobs_running = 0;
    for (const JobView& job : view_.jobs)
        if (!host_.stopping()) consider(job);
    stats_.plan_ms = ms_since(mark);
    if (host_.stopping()) return;
    see_what_is_free();
    mark = Clock::now();
    const Decision decision = policy_->decide(snapshot_, offers_, policy_options_);
    stats_.decide_ms = ms_since(mark);
    mark = Clock::now();
    // The first counts; a start ends it.
    for (const auto& [id, until_s] : decision.patience) patience_.try_emplace(id, until_s);
    apply(decision);
    say_why(decision);
    stats_.apply_ms = ms_since(mark);
    mark = Clock::now();
    look_forward();
    note_places();
    stats_.forecast_ms = ms_since(mark);
    forget_gone();
    stats_.last_ms = ms_since(start);
    stats_.max_ms = std::max(stats_.max_ms, stats_.last_ms);
    stats_.total_ms += stats_.last_ms;
    ++stats_.timed_rounds;
    ++stats_.rounds;
}

Shape Scheduler::shape_for(const Planned& planned, const Offer& offer,
                           std::string_view state) const {
    const Request& request = planned.wish->request;
    const Grid& grid = offer.grid;
    Shape shape;
    shape.job = planned.view->id;
    shape.restart = planned.view->facts.restart;
    shape.basis = planned.view->basis;
    shape.offer = offer;
    shape.tasks_per_node = tasks_per_node(request.launcher, grid);
    const JobState& job = snapshot_.jobs[planned.state];
    shape.cpus_per_task =
        std::max<std::int64_t>(job.cpus_per_gpu * grid.gpus_per_node / shape.tasks_per_node, 1);
    write_memory(shape, request, job);
    shape.environment = launch_environment(request, offer);
    shape.admin_comment = admin_comment(state, offer);
    shape.system_comment = system_comment(*planned.offers, last_.at(shape.job).unmeasured);
    return shape;
}

void Scheduler::block(JobId job, const Grid& grid, const std::string& why, bool limited) {
    blocked_[job].push_back({grid, view_.steady_s + blocked_s, why, limited});
}

/// Slurm knows more of the shape than was asked for here: a line in the log for each reason, not
/// for each offer.
void Scheduler::refused_shape(const Planned& planned, const Offer& offer,
                              const ApplyResult& result) {
    const JobId id = planned.view->id;
    const std::string& why = result.text;
    const double now_s = view_.steady_s;
    const bool hopeless = result.outcome == ApplyOutcome::never;
    blocked_[id].push_back({offer.grid, now_s + (hopeless ? hopeless_s : blocked_s), why});
    if (refusals_.note(std::to_string(id), why, now_s))
        host_.log_error(fmt::format(
            "JobId={} not started with {}: {}; its other shapes are tried less and less "
            "often",
            id, short_form(offer.grid), why));
    wait_reason(*planned.view, why);
}

/// Something that Slurm refused the job for may be another now.
void Scheduler::forgive(JobId job) {
    refusals_.forget(std::to_string(job));
    blocked_.erase(job);
}

/// The job waits released, at its place, with this shape; only when Slurm keeps refusing is it
/// replanned.
void Scheduler::keep_trying(const Planned& planned, const Offer& offer, const std::string& why) {
    const JobId id = planned.view->id;
    const auto at = busy_.try_emplace(id, Blocked{offer.grid, view_.steady_s + busy_s, why}).first;
    if (at->second.grid != offer.grid) at->second = {offer.grid, view_.steady_s + busy_s, why};
    last_[id].state = "waiting with a reservation";
    last_[id].reason = why;
    if (view_.steady_s < at->second.until_s) return;
    busy_.erase(at);
    if (host_.hold_again(id, planned.view->facts.restart).outcome == ApplyOutcome::done)
        ++stats_.reholds;
    block(id, offer.grid, why);
    wait_reason(*planned.view, why);
}

/// Once is a change while the round was decided; again and again is a plan that Slurm does not
/// share.
void Scheduler::note_stale(const Planned& planned, const Grid& grid, const std::string& why) {
    const JobId id = planned.view->id;
    ++stats_.stale;
    if (++stale_[id] < stale_rounds) return;
    stale_.erase(id);
    const std::string text = fmt::format("{} not startable: {}", short_form(grid), why);
    block(id, grid, text);
    host_.log_error(fmt::format("JobId={} {}", id, text));
    wait_reason(*planned.view, text);
}

void Scheduler::apply_start(const Planned& planned, const Action& action) {
    std::vector<std::string> nodes;
    for (NodeIndex index : action.nodes) nodes.push_back(snapshot_.nodes[index].name);
    const JobId id = planned.view->id;
    Shape shape = shape_for(planned, action.offer, "running");
    const auto& places = planned.view->places;
    if (action.place < places.size()) shape.partition = places[action.place].partition;
    const ApplyResult result = host_.start(shape, nodes);
    if (result.outcome != ApplyOutcome::stale) stale_.erase(id);
    Last& last = last_[id];
    last.chosen = action.offer.grid;
    last.state = "running";
    last.reason = action.reason;
    switch (result.outcome) {
        case ApplyOutcome::done:
            ++stats_.starts;
            busy_.erase(id);
            refused_updates_.erase(id);
            refusals_.forget(std::to_string(id));
            return;
        case ApplyOutcome::stale:
            return note_stale(planned, action.offer.grid, result.text);
        case ApplyOutcome::waiting_for_preemption:
            last.state = "waiting";
            last.reason = result.text;
            return;
        case ApplyOutcome::busy:
            ++stats_.failed_starts;
            return keep_trying(planned, action.offer, result.text);
        case ApplyOutcome::limited:
            block(id, action.offer.grid, result.text, true);
            return wait_reason(*planned.view, result.text);
        case ApplyOutcome::retry:
        case ApplyOutcome::never:
            ++stats_.failed_starts;
            return refused_shape(planned, action.offer, result);
    }
}

void Scheduler::apply_release(const Planned& planned, const Action& action) {
    const JobId id = planned.view->id;
    Last& last = last_[id];
    last.state = "waiting with a reservation";
    last.reason = action.reason;
    last.chosen = action.offer.grid;
    say_refused_update(*planned.view);
    if (!planned.view->facts.held) {
        const auto& current = wishes_.plan(id, planned.view->offer_json);
        if (current && same_shape(*current, action.offer)) return;
    }
    const ApplyResult result = host_.release(shape_for(planned, action.offer, "released"));
    if (result.outcome != ApplyOutcome::stale) stale_.erase(id);
    if (result.outcome == ApplyOutcome::done) {
        ++stats_.releases;
    } else if (result.outcome == ApplyOutcome::stale) {
        note_stale(planned, action.offer.grid, result.text);
    } else if (result.outcome == ApplyOutcome::limited) {
        block(id, action.offer.grid, result.text, true);
        wait_reason(*planned.view, result.text);
    } else {
        refused_shape(planned, action.offer, result);
    }
}

/// Released jobs that the decision no longer starts or keeps waiting with a shape are held again.
void Scheduler::take_back(const std::map<JobId, const Action*>& actions) {
    for (const auto& [id, planned] : planned_) {
        if (host_.stopping()) return;
        if (planned.role != Role::waits || planned.view->facts.held || actions.contains(id))
            continue;
        if (host_.hold_again(id, planned.view->facts.restart).outcome == ApplyOutcome::done)
            ++stats_.reholds;
    }
}

/// Takes the action's GPUs out of what is free now. False, and nothing taken, where some of them
/// are still held by a job that gives them back.
bool Scheduler::take_free_nodes(const Action& action) {
    std::vector<NodeState>& nodes = view_.snapshot.nodes;
    const std::int64_t gpus = action.offer.grid.gpus_per_node;
    const auto free = [&](NodeIndex index) { return nodes[index].free_gpus >= gpus; };
    if (!std::all_of(action.nodes.begin(), action.nodes.end(), free)) return false;
    for (NodeIndex index : action.nodes) nodes[index].free_gpus -= gpus;
    return true;
}

void Scheduler::apply_waiting(const Planned& planned, const Action& action) {
    // Whoever stands before it in Slurm's queue must not be overtaken: with its shape, at its
    // place, Slurm's own backfill starts it as soon as that delays nobody.
    // So it does where the job fits with its --time-min only, or has to have whole nodes.
    const auto& places = planned.view->places;
    const bool by_slurm = action.place < places.size() && places[action.place].by_slurm;
    const bool start =
        action.kind == ActionKind::start && !planned.view->ordinary_ahead() && !by_slurm;
    if (start && take_free_nodes(action))
        apply_start(planned, action);
    else if (action.kind == ActionKind::start || action.kind == ActionKind::reshape_and_wait)
        apply_release(planned, action);
}

/// Its next life is planned when it is back: what is best then may be something else.
void Scheduler::apply_move(const Planned& planned, const Action& action) {
    const JobId id = planned.view->id;
    if (!checkpoint(*planned.view, true)) return;
    ++stats_.moves;
    const std::string to =
        action.kind == ActionKind::preempt ? "others" : short_form(action.offer.grid);
    host_.log_info(fmt::format("JobId={} gives way to {}: {}", id, to, action.reason));
    last_[id].state = "checkpointing";
    last_[id].reason = fmt::format("for {}: {}", to, action.reason);
}

void Scheduler::apply(const Decision& decision) {
    std::map<JobId, const Action*> actions;
    for (const Action& action : decision.actions) actions.emplace(action.job, &action);
    take_back(actions);
    for (const Action& action : decision.actions) {
        if (host_.stopping()) return;
        const auto at = planned_.find(action.job);
        if (at == planned_.end()) continue;
        const bool move = action.kind == ActionKind::resize || action.kind == ActionKind::preempt;
        if (at->second.role == Role::waits && !move) apply_waiting(at->second, action);
        if (at->second.role == Role::runs && move) apply_move(at->second, action);
    }
}

void Scheduler::note_update(const LeftUpdate& update) {
    if (!update.refused.empty()) {
        refused_updates_[update.job] = update.refused;
        return;
    }
    refused_updates_.erase(update.job);
    forgive(update.job);
}

/// Of a released job the reason is Slurm's, which each of its passes writes anew.
void Scheduler::say_refused_update(const JobView& job) {
    const bool refused = refused_updates_.contains(job.id);
    if (job.facts.held || (!refused && !job.reason.starts_with("Arena: update refused"))) return;
    reasons_.push_back({job.id,
                        refused ? "Arena: " + with_refused_update(job.id, {}) : std::string(),
                        {},
                        {},
                        true});
}

std::string Scheduler::with_refused_update(JobId job, const std::string& reason) const {
    const auto at = refused_updates_.find(job);
    if (at == refused_updates_.end()) return reason;
    return "update refused: " + at->second + (reason.empty() ? "" : "; " + reason);
}

/// GPUs of a set's nodes that have all this beside them.
const std::vector<TypePool>& Scheduler::pools_with(std::uint32_t node_set, bool up_only,
                                                   const NodeNeeds& needs) {
    const PoolKey key{node_set, up_only, needs.cpus_per_gpu, needs.memory_per_gpu_mb,
                      needs.memory_per_node_mb};
    const auto [at, added] = pools_with_.try_emplace(key);
    if (!added) return at->second;
    std::vector<NodeFacts> facts;
    for (NodeIndex index : view_.snapshot.node_sets[node_set]) {
        const NodeState& node = view_.snapshot.nodes[index];
        if (node.total_gpus > 0 && (node.up || !up_only))
            facts.push_back({{{node.gpu_type, node.total_gpus}},
                             view_.node_cpus[index],
                             view_.node_memory_mb[index]});
    }
    at->second = make_pools(facts, needs);
    return at->second;
}

/// Whether the nodes that would do, were they up, are the reason why none of its offers has any.
bool Scheduler::nodes_are_down(const Planned& planned) {
    const std::vector<TypePool>& pools = pools_with(planned.view->node_set, true, {});
    return std::none_of(planned.offers->begin(), planned.offers->end(),
                        [&](const Offer& offer) { return can_hold(pools, offer); });
}

void Scheduler::say_why(const Decision& decision) {
    // Jobs with the same offers say the same of them.
    std::map<std::pair<const std::vector<Offer>*, std::string_view>, std::string> comments;
    for (const auto& [id, why] : decision.waiting) {
        const auto at = planned_.find(id);
        if (at == planned_.end() || at->second.role != Role::waits) continue;
        Last& last = last_[id];
        last.state = "waiting";
        const bool down = nodes_are_down(at->second);
        last.reason = down ? down_words : why;
        last.chosen.reset();
        const auto& offers = at->second.offers;
        std::string& comment = comments[{offers.get(), last.unmeasured}];
        if (comment.empty()) comment = system_comment(*offers, last.unmeasured);
        const bool plain = down && !refused_updates_.contains(id);
        reasons_.push_back({id, (plain ? "" : "Arena: ") + with_refused_update(id, last.reason),
                            "arena:v1 state=held", comment});
    }
    host_.set_reasons(reasons_);
}

void Scheduler::forget_gone() {
    std::vector<JobId> alive;
    for (const JobView& job : view_.jobs) alive.push_back(job.id);
    std::sort(alive.begin(), alive.end());
    const auto lives = [&](JobId id) { return std::binary_search(alive.begin(), alive.end(), id); };
    wishes_.keep(lives);
    const auto gone = [&](const auto& entry) { return !lives(entry.first); };
    std::erase_if(settled_since_, gone);
    std::erase_if(ages_, [&](const auto& entry) { return !lives(entry.first.first); });
    std::erase_if(profile_wait_since_, gone);
    std::erase_if(blocked_, gone);
    std::erase_if(busy_, gone);
    std::erase_if(stale_, gone);
    std::erase_if(last_, gone);
    std::erase_if(expected_, gone);
    std::erase_if(patience_, gone);
    std::erase_if(refused_updates_, gone);
    refusals_.forget_old(view_.steady_s, [&](const std::string& id) {
        return lives(static_cast<JobId>(parse_integer(id, 0, UINT32_MAX).value_or(0)));
    });
}

}  // namespace arena
