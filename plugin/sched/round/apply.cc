// SPDX-License-Identifier: GPL-2.0-or-later
// The third stage of a round, and the only one that changes jobs: see stages.h. Whether the
// controller stops is asked before each of them: what is started then would be lost.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "plugin/sched/host/nonce.h"
#include "plugin/sched/round/launch.h"
#include "plugin/sched/round/running.h"
#include "plugin/sched/round/shares.h"
#include "plugin/sched/round/stages.h"
#include "site/leave_signals.h"

namespace arena {
namespace {

bool is_done(const ApplyResult& result) { return result.outcome == ApplyOutcome::done; }

bool same_shape(const Offer& a, const Offer& b) { return a.grid == b.grid && is_same_offer(a, b); }

class Application {
  public:
    Application(const Round& round, Books& books, Host& host);
    Journal run(const Decision& decision);

  private:
    void carry_out(const Order& order);
    void take_back(const std::map<JobId, const Action*>& actions);
    void carry_out(const PlannedJob& planned, const Action& action);
    [[nodiscard]] bool are_lent(const std::vector<NodeIndex>& nodes) const;
    [[nodiscard]] bool take_free_nodes(const Action& action);
    void start(const PlannedJob& planned, const Action& action);
    void start_array(const PlannedJob& planned, const Action& action, const ArrayLead& lead);
    void start_member(const Order& order);
    void release(const PlannedJob& planned, const Action& action);
    void move(const PlannedJob& planned, const Action& action);
    void keep_trying(const PlannedJob& planned, const Offer& offer, const std::string& why);
    void note_refusal(const PlannedJob& planned, const Offer& offer, const ApplyResult& result);
    [[nodiscard]] bool checkpoint(const JobView& job, std::int64_t done, const Move& move);
    void write_facts();
    void settle_arrays();
    void requeue(const JobView& job);
    void stay(const Order& order);
    [[nodiscard]] std::vector<std::string> names_of(const std::vector<NodeIndex>& nodes) const;
    void leave(const Order& order);
    void note_avoided(const Order& order);
    [[nodiscard]] Shape shape_for(const PlannedJob& planned, const Action& action,
                                  std::string_view state) const;
    [[nodiscard]] std::vector<std::string> names_of(const std::vector<NodeIndex>& avoided,
                                                    const std::vector<NodeIndex>& kept) const;
    void hold_again(const JobView& job) {
        changes_.reholds += is_done(host_.hold_again(job.id, job.facts.restart));
    }
    void note(Note note) { journal_.notes.push_back(std::move(note)); }

    const Round& round_;
    Books& books_;
    Host& host_;
    Journal journal_;
    Changes& changes_ = journal_.changes;
    std::vector<std::int64_t> free_gpus_;  ///< of each node: none that a job has yet to give back
};

Application::Application(const Round& round, Books& books, Host& host)
    : round_(round), books_(books), host_(host) {
    for (const NodeState& node : round.view.snapshot.nodes) free_gpus_.push_back(node.free_gpus);
}

Journal Application::run(const Decision& decision) {
    write_facts();
    for (const Order& order : round_.orders)
        if (!host_.stopping()) carry_out(order);
    if (!books_.arrays.carriers().empty() && !host_.stopping()) settle_arrays();
    // The first counts; a start ends it.
    for (const auto& [id, until_s] : decision.patience) books_.patience.try_emplace(id, until_s);
    std::map<JobId, const Action*> actions;
    for (const Action& action : decision.actions) actions.emplace(action.job, &action);
    take_back(actions);
    for (const Action& action : decision.actions) {
        if (host_.stopping()) break;
        const auto at = round_.planned.find(action.job);
        if (at != round_.planned.end()) carry_out(at->second, action);
    }
    return std::move(journal_);
}

void Application::carry_out(const Order& order) {
    const JobView& job = *order.job;
    switch (order.kind) {
        case Order::Kind::hold:
            (void)host_.hold_again(job.id, job.facts.restart);
            return;
        case Order::Kind::give_up:
            return hold_again(job);
        case Order::Kind::save_state:
            if (checkpoint(job, order.done, order.move))
                note({.job = &job,
                      .state = "checkpointing",
                      .reason = "its owner asks for another shape: " + printable(job.comment),
                      .keeps_chosen = true});
            return;
        case Order::Kind::leave:
            return leave(order);
        case Order::Kind::note_avoided:
            return note_avoided(order);
        case Order::Kind::split:
            (void)host_.split(job.id, job.facts.restart, order.tasks);
            return;
        case Order::Kind::join:
            return start_member(order);
        case Order::Kind::stay:
            return stay(order);
        case Order::Kind::requeue:
            return requeue(job);
        case Order::Kind::leave_to_slurm:
            changes_.opt_outs += is_done(host_.opt_out(order.shape, Phase::off));
            return;
    }
}

/// What was learnt of nodes stands in their records before anything rests on it.
void Application::write_facts() {
    books_.loans.carry_out();
    books_.loans.finish(arena::write_facts(books_.nodes, host_));
    for (const HostNodes::Fencing& fencing : books_.nodes.take_fencings()) {
        const ApplyResult result = host_.fence(fencing);
        const std::string why = is_done(result) ? "" : result.text;
        if (books_.nodes.note_fencing(fencing.node, why) && !why.empty())
            host_.log_error(fmt::format("node {} not fenced: {}", fencing.node, why));
    }
}

void Application::settle_arrays() {
    for (const Move& move : books_.arrays.settle()) {
        ++changes_.checkpoints;
        changes_.moves += move.counts;
        if (move.leaves_slow) books_.slowdown.count_move();
    }
}

void Application::requeue(const JobView& job) {
    if (!is_done(host_.requeue_hold(job.id, job.facts.restart))) return;
    ++changes_.requeues;
    if (job.facts.mark && job.facts.mark->phase == Phase::checkpointing)
        books_.note_unsaved(round_.snapshot.time_s, job.id, job.user_id);
}

/// It has saved its state, and its script waits for this.
void Application::stay(const Order& order) {
    const JobView& job = *order.job;
    const auto at = round_.planned.find(job.id);
    if (at == round_.planned.end()) return;
    const Shape shape = shape_for(at->second, order.action, "running");
    const ApplyResult result = host_.stay(shape, names_of(order.action.nodes));
    if (!is_done(result)) return;
    note({.job = &job,
          .state = "running",
          .reason = order.action.reason,
          .chosen = order.action.offer});
}

std::vector<std::string> Application::names_of(const std::vector<NodeIndex>& nodes) const {
    std::vector<std::string> names;
    for (const NodeIndex index : nodes) names.push_back(round_.snapshot.nodes[index].name);
    return names;
}

void Application::leave(const Order& order) {
    const JobView& job = *order.job;
    if (!checkpoint(job, order.done, order.move)) return;
    books_.leaving.erase(job.id);
    changes_.moves += order.move.counts;
    if (order.move.leaves_slow) books_.slowdown.count_move();
    host_.log_info(fmt::format("JobId={} {}", job.id, order.move.why));
    note({.job = &job, .state = "checkpointing", .reason = order.move.why, .keeps_chosen = true});
}

void Application::note_avoided(const Order& order) {
    const JobView& job = *order.job;
    if (is_done(host_.note_avoided(job.id, job.facts.restart, order.move.avoid)))
        books_.leaving.erase(job.id);
}

/// Tells the job to save its state and exit.
bool Application::checkpoint(const JobView& job, std::int64_t done, const Move& move) {
    const int signal =
        value_of(leave_signals, books_.site.config.checkpoint_signal).value_or(SIGUSR1);
    if (!is_done(host_.checkpoint(job.id, job.facts.restart, signal, done, move))) return false;
    ++changes_.checkpoints;
    return true;
}

/// Released jobs that the decision no longer starts or keeps waiting with a shape are held again.
void Application::take_back(const std::map<JobId, const Action*>& actions) {
    for (const auto& [id, planned] : round_.planned) {
        if (host_.stopping()) return;
        if (planned.role == Role::waits && !planned.view->facts.held && !actions.contains(id))
            hold_again(*planned.view);
    }
}

void Application::carry_out(const PlannedJob& planned, const Action& action) {
    const bool moves = action.kind == ActionKind::resize || action.kind == ActionKind::preempt;
    if (moves) {
        if (planned.role == Role::runs) move(planned, action);
        return;
    }
    if (planned.role != Role::waits) return;
    // Whoever stands before it in Slurm's queue must not be overtaken: with its shape, at its
    // place, Slurm's own backfill starts it as soon as that delays nobody.
    // So it does where the job fits with its --time-min only, or has to have whole nodes.
    const auto& slots = planned.view->slots;
    const bool by_slurm = action.place < slots.size() && slots[action.place].by_slurm;
    // Lent nodes are nobody's before it.
    const bool overtakes = planned.view->ordinary_ahead() && !are_lent(action.nodes);
    const bool starts = action.kind == ActionKind::start && !overtakes && !by_slurm;
    if (const auto lead = round_.leads.find(planned.view->id); lead != round_.leads.end()) {
        if (starts && take_free_nodes(action)) return start_array(planned, action, *lead->second);
        return note(waits_for(*planned.view, overtakes ? "its siblings' pipeline waits behind an "
                                                         "ordinary job"
                                                       : action.reason));
    }
    // Released, Slurm would put it on whatever nodes.
    const bool stays_held =
        action.offer.grid.is_uneven() || (action.offer.segment > 1 && !books_.keeps_segments);
    if (starts && take_free_nodes(action))
        start(planned, action);
    else if (stays_held)
        note(waits_for(*planned.view, overtakes ? "waits behind an ordinary job" : action.reason));
    else if (action.kind == ActionKind::start || action.kind == ActionKind::reshape_and_wait)
        release(planned, action);
}

bool Application::are_lent(const std::vector<NodeIndex>& nodes) const {
    return std::all_of(nodes.begin(), nodes.end(),
                       [&](NodeIndex index) { return !round_.snapshot.nodes[index].lent.empty(); });
}

/// Takes the action's GPUs out of what is free now. False, and nothing taken, where some of them
/// are still held by a job that gives them back.
bool Application::take_free_nodes(const Action& action) {
    const Grid& grid = action.offer.grid;
    for (std::size_t n = 0; n < action.nodes.size(); ++n)
        if (free_gpus_[action.nodes[n]] < grid.gpus_on(n)) return false;
    for (std::size_t n = 0; n < action.nodes.size(); ++n)
        free_gpus_[action.nodes[n]] -= grid.gpus_on(n);
    return true;
}

/// Of those that it avoids only whole nodes; of those that are kept for others any part. Ascending.
std::vector<std::string> Application::names_of(const std::vector<NodeIndex>& avoided,
                                               const std::vector<NodeIndex>& kept) const {
    const auto& nodes = round_.snapshot.nodes;
    std::set<std::string> names;
    for (const NodeIndex index : avoided)
        if (!nodes[index].same_node) names.insert(nodes[index].name);
    for (const NodeIndex index : kept) names.insert(nodes[parts_of(nodes, index).first].name);
    return {names.begin(), names.end()};
}

/// What is kept for promised jobs is not Slurm's to give to this one, also where it waits released
/// because its start did not succeed.
Shape Application::shape_for(const PlannedJob& planned, const Action& action,
                             std::string_view state) const {
    const Offer& offer = action.offer;
    const Request& request = planned.wanted->request;
    const JobState& job = round_.snapshot.jobs[planned.state];
    Shape shape;
    shape.job = planned.view->id;
    shape.restart = planned.view->facts.restart;
    shape.basis = planned.view->basis;
    shape.offer = offer;
    shape.tasks_per_node = tasks_per_node(request.launcher, offer.grid);
    shape.cpus_per_task = std::max<std::int64_t>(
        job.cpus_per_gpu * offer.grid.gpus_per_node / shape.tasks_per_node, 1);
    if (offer.grid.is_uneven())
        (shape.tasks_per_node == 1 ? shape.cpus_per_gpu : shape.cpus_per_task) =
            std::max<std::int64_t>(job.cpus_per_gpu, 1);
    write_memory(shape, request, job);
    shape.exclude = names_of(planned.view->avoided, action.kept);
    shape.environment = launch_environment(request, offer);
    for (std::string& variable : watch_environment(request, books_.site.config))
        shape.environment.push_back(std::move(variable));
    for (std::string& variable : leave_environment(request, books_.site.config))
        shape.environment.push_back(std::move(variable));
    shape.environment.push_back(given_entry(shape.environment, request));
    shape.admin_comment = admin_comment(state, offer);
    shape.system_comment = system_comment(*planned.offers, books_.statuses[shape.job].unmeasured);
    return shape;
}

void Application::start(const PlannedJob& planned, const Action& action) {
    const std::vector<std::string> nodes = names_of(action.nodes);
    const JobView& job = *planned.view;
    Shape shape = shape_for(planned, action, "running");
    if (action.place < job.slots.size()) shape.partition = job.slots[action.place].partition;
    if (const auto lent = lent_among(books_.loans.memory(), nodes); !lent.empty()) {
        shape.on_lent = true;
        shape.admin_comment += " lent=" + join(lent, ",");
    }
    const ApplyResult result = host_.start(shape, nodes);
    if (result.outcome != ApplyOutcome::stale) books_.blocked.not_stale(job.id);
    switch (result.outcome) {
        case ApplyOutcome::waiting_for_preemption:
            return note(
                {.job = &job, .state = "waiting", .reason = result.text, .chosen = action.offer});
        case ApplyOutcome::busy:
            ++changes_.failed_starts;
            return keep_trying(planned, action.offer, result.text);
        case ApplyOutcome::done:
            ++changes_.starts;
            journal_.starts.push_back({job.id, action.nodes, action.offer});
            books_.blocked.started(job.id);
            books_.refused_updates.erase(job.id);
            break;
        case ApplyOutcome::retry:
        case ApplyOutcome::never:
            ++changes_.failed_starts;
            break;
        case ApplyOutcome::stale:
        case ApplyOutcome::limited:
            break;
    }
    note({.job = &job, .state = "running", .reason = action.reason, .chosen = action.offer});
    if (!is_done(result)) note_refusal(planned, action.offer, result);
}

/// A job of its user's that trains it and its siblings, which join once that runs.
void Application::start_array(const PlannedJob& planned, const Action& action,
                              const ArrayLead& lead) {
    const JobView& job = *planned.view;
    const Config& config = books_.site.config;
    CarrierFacts facts = lead.facts;
    facts.key = new_nonce();
    const std::string name = new_nonce();
    if (facts.key.empty() || name.empty())
        return note(waits_for(job, "the kernel of slurmctld's host gives no randomness"));
    facts.socket = "@arena-array-" + name.substr(0, 16);
    ArrayCarrierSpec spec;
    spec.lead = job.id;
    spec.restart = job.facts.restart;
    spec.basis = job.basis;
    spec.partition = action.place < job.slots.size() ? job.slots[action.place].partition : "";
    facts.partition = spec.partition;
    for (NodeIndex index : action.nodes) spec.nodes.push_back(round_.snapshot.nodes[index].name);
    spec.gpu_type = action.offer.grid.gpu_type;
    spec.gpus_per_node = action.offer.grid.gpus_per_node;
    spec.cpus_per_gpu = std::max<std::int64_t>(lead.cpus_per_gpu, 1);
    spec.memory_mb_per_node = lead.memory_mb_per_gpu * spec.gpus_per_node;
    spec.time_limit_minutes = static_cast<std::uint32_t>(lead.limit_minutes);
    spec.name = "arena-array";
    spec.script = carrier_script(planned.wanted->request, lead.offer, facts, config);
    spec.facts = format_carrier(facts);
    spec.admin_comment = carrier_comment(facts);
    spec.environment = {"ARENA_ARRAY_KEY=" + facts.key};
    const HostArrays::Started started = host_.start_array(spec);
    if (started.id != 0) {
        ++changes_.starts;
        books_.blocked.started(job.id);
        books_.arrays.has_begun(started.id);
        return note(
            waits_for(job, fmt::format("waits for its array's JobId={} to begin", started.id)));
    }
    note(waits_for(job, started.why));
    if (started.limited) return books_.arrays.refuse(job, started.why);
    const ApplyOutcome outcome = started.stale ? ApplyOutcome::stale : ApplyOutcome::retry;
    if (!started.stale) {
        ++changes_.failed_starts;
        books_.blocked.not_stale(job.id);
    }
    note_refusal(planned, action.offer, {outcome, started.why});
}

void Application::start_member(const Order& order) {
    const JobView& job = *order.job;
    const ArrayBook::Carrier* carrier = find_carrier(books_.arrays.carriers(), order.shape.array);
    if (carrier == nullptr || carrier->view.nodes.empty()) return;
    const std::vector<std::string> first{carrier->view.nodes.front()};
    Shape shape = order.shape;
    shape.on_lent = !lent_among(books_.loans.memory(), first).empty();
    const ApplyResult result = host_.start(shape, first);
    if (is_done(result)) {
        ++changes_.starts;
        books_.blocked.started(job.id);
        books_.arrays.has_started(order.shape.array);
        return note({.job = &job, .state = "running"});
    }
    const Offer& offer = order.shape.offer;
    std::string why = "beside its array's pipeline: " + result.text;
    if (result.outcome == ApplyOutcome::never) books_.arrays.close(order.shape.array, result.text);
    if (result.outcome == ApplyOutcome::limited) {
        books_.arrays.refuse_member(job, order.shape.array, result.text);
        books_.blocked.block(job.id, offer, why, true);
    }
    if (result.outcome == ApplyOutcome::retry) {
        ++changes_.failed_starts;
        books_.arrays.note_trouble(order.shape.array, result.text);
        if (books_.blocked.refuse(job.id, offer, why, false))
            host_.log_error(fmt::format("JobId={} not started {}", job.id, why));
    }
    note(waits_for(job, std::move(why)));
}

void Application::release(const PlannedJob& planned, const Action& action) {
    const JobView& job = *planned.view;
    note({.job = &job,
          .state = "waiting with a reservation",
          .reason = action.reason,
          .shown = Note::Shown::released,
          .chosen = action.offer});
    if (!job.facts.held) {
        const auto& current = books_.requests.plan(job.id, job.offer_json);
        const bool same = current && same_shape(*current, action.offer);
        if (same && names_of(job.avoided, action.kept) == names_of(job.excluded, {})) return;
    }
    ApplyResult result = host_.release(shape_for(planned, action, "released"));
    // Nodes that it could have are kept for promised jobs, and will not be for long.
    if (result.outcome == ApplyOutcome::never && !action.kept.empty())
        result.outcome = ApplyOutcome::retry;
    if (result.outcome != ApplyOutcome::stale) books_.blocked.not_stale(job.id);
    if (is_done(result))
        ++changes_.releases;
    else
        note_refusal(planned, action.offer, result);
}

/// Its next life is planned when it is back: what is best then may be something else.
void Application::move(const PlannedJob& planned, const Action& action) {
    const JobView& job = *planned.view;
    const JobState& state = round_.snapshot.jobs[planned.state];
    Move order{.why = {}, .counts = true};
    if (action.kind == ActionKind::resize && state.current)
        if (auto stays = nodes_to_stay_on(job, planned.wanted->request, *state.current,
                                          action.offer, action.nodes, round_.snapshot);
            !stays.empty())
            order.stay = Stay{action.offer, names_of(stays)};
    if (!checkpoint(job, static_cast<std::int64_t>(state.done_iterations), order)) return;
    ++changes_.moves;
    const std::string to =
        action.kind == ActionKind::preempt ? "others" : short_form(action.offer.grid);
    host_.log_info(fmt::format("JobId={} gives way to {}: {}", job.id, to, action.reason));
    note({.job = &job,
          .state = "checkpointing",
          .reason = fmt::format("for {}: {}", to, action.reason),
          .keeps_chosen = true});
}

/// The job waits released, at its place, with this shape; only when Slurm keeps refusing is it
/// replanned.
void Application::keep_trying(const PlannedJob& planned, const Offer& offer,
                              const std::string& why) {
    const JobView& job = *planned.view;
    if (!books_.blocked.busy_too_long(job.id, offer, why))
        return note(
            {.job = &job, .state = "waiting with a reservation", .reason = why, .chosen = offer});
    hold_again(job);
    note(waits_for(job, why));
}

void Application::note_refusal(const PlannedJob& planned, const Offer& offer,
                               const ApplyResult& result) {
    const JobView& job = *planned.view;
    std::string why = result.text;
    if (result.outcome == ApplyOutcome::stale) {
        ++changes_.stale;
        why = fmt::format("{} not startable: {}", short_form(offer.grid), result.text);
        if (!books_.blocked.stale_too_often(job.id, offer, why)) return;
        host_.log_error(fmt::format("JobId={} {}", job.id, why));
    } else if (result.outcome == ApplyOutcome::limited) {
        books_.blocked.block(job.id, offer, why, true);
    } else if (books_.blocked.refuse(job.id, offer, why, result.outcome == ApplyOutcome::never)) {
        host_.log_error(fmt::format(
            "JobId={} not started with {}: {}; its other shapes are tried less and less "
            "often",
            job.id, short_form(offer.grid), why));
    }
    note(waits_for(job, why));
}

}  // namespace

Journal apply(const Round& round, const Decision& decision, Books& books, Host& host) {
    return Application(round, books, host).run(decision);
}

}  // namespace arena
