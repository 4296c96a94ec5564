// SPDX-License-Identifier: GPL-2.0-or-later
// See scheduler.h. The order inside a round matters: what Slurm did since the last one is taken in
// first, then what each job wants, then one decision for all, then its application job by job.
#include "plugin/sched/scheduler.h"

#include <algorithm>
#include <cassert>
#include <csignal>

#include <fmt/format.h>

#include "core/text.h"

namespace arena {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// A batch launch in the second of the last kill is refused by slurmd: wait for a later one.
constexpr double settle_s = 2;
/// A controller that died forgot its last jobs and gives their ids again, while nodes still end the
/// forgotten copies: a batch launch under such an id drains the node. Seen up to 5 s after a restart.
constexpr double recovery_s = 8;
/// How long an offer that Slurm refused is left out.
constexpr double blocked_s = 30;
/// How long an offer is tried whose nodes Slurm calls busy, before it is left out.
constexpr double busy_s = 10;

/// The names that arena.yaml accepts.
int signal_number(std::string_view name) {
    constexpr std::pair<std::string_view, int> numbers[] = {
        {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TERM", SIGTERM}, {"INT", SIGINT},
        {"HUP", SIGHUP},   {"CONT", SIGCONT}, {"URG", SIGURG},   {"QUIT", SIGQUIT}};
    for (const auto& [known, number] : numbers)
        if (known == name) return number;
    return SIGUSR1;
}

bool asks_to_hold(const std::string& record) {
    auto request = parse_record(record);
    return request && request->user_hold;
}

bool same_shape(const Offer& a, const Offer& b) { return a.grid == b.grid && a.plan == b.plan; }

bool inside_wish(const Request& request, const Offer& offer) {
    const std::int64_t gpus = offer.grid.gpus();
    const bool in_range = gpus >= request.min_gpus && (request.max_gpus == 0 || gpus <= request.max_gpus);
    return in_range && matches(request.pin, offer.plan);
}

bool allows(const std::vector<std::string>& gpu_types, const std::string& type) {
    return gpu_types.empty() || std::find(gpu_types.begin(), gpu_types.end(), type) != gpu_types.end();
}

/// CPUs and memory of one GPU: what every GPU type that the job may get can give to each of its GPUs.
/// A type with more to give must not make a poorer one impossible.
void take_even_share(JobState& state, const std::vector<SitePool>& pools) {
    std::int64_t cpus = INT64_MAX, memory_mb = INT64_MAX;
    for (const SitePool& pool : pools) {
        if (!allows(state.gpu_types, pool.gpu_type)) continue;
        cpus = std::min(cpus, pool.cpus_per_gpu);
        memory_mb = std::min(memory_mb, pool.memory_mb_per_gpu);
    }
    state.cpus_per_gpu = cpus == INT64_MAX ? 1 : std::max<std::int64_t>(cpus, 1);
    state.memory_mb_per_gpu = memory_mb == INT64_MAX ? 0 : memory_mb;
}

/// The user's request, else the site's setting, else an even share of the node.
void take_share(JobState& state, const Config& config, const Request& request,
                const std::vector<SitePool>& pools) {
    state.gpu_types = request.gpu_types;
    take_even_share(state, pools);
    if (config.cpus_per_gpu > 0) state.cpus_per_gpu = config.cpus_per_gpu;
    if (config.mem_per_gpu_mb > 0) state.memory_mb_per_gpu = config.mem_per_gpu_mb;
    if (request.cpus_per_gpu > 0) state.cpus_per_gpu = request.cpus_per_gpu;
    if (request.mem_per_gpu_mb > 0) state.memory_mb_per_gpu = request.mem_per_gpu_mb;
}

/// What an opted-out job asks for: its smallest count, of the first type it allows that has as many,
/// on as few nodes as equal shares go. No such type: any GPU (a job without --arena-types).
Grid plain_grid(const Request& request, const std::vector<SitePool>& pools) {
    const std::int64_t gpus = std::max<std::int64_t>(request.min_gpus, 1);
    const SitePool* chosen = nullptr;
    for (const SitePool& pool : pools)
        if (!chosen && allows(request.gpu_types, pool.gpu_type) && pool.max_gpus >= gpus) chosen = &pool;
    Grid grid;
    grid.gpus_per_node = gpus;
    if (!request.gpu_types.empty()) grid.gpu_type = chosen ? chosen->gpu_type : request.gpu_types.front();
    if (!chosen || chosen->gpus_per_node <= 0) return grid;
    grid.gpus_per_node = std::min(gpus, chosen->gpus_per_node);
    while (gpus % grid.gpus_per_node != 0) --grid.gpus_per_node;
    grid.nodes = gpus / grid.gpus_per_node;
    return grid;
}

}  // namespace

Scheduler::Scheduler(Host& host, Config config, std::vector<GpuType> hardware)
    : host_(host),
      config_(std::move(config)),
      profiles_(host, config_),
      offers_book_(config_, std::move(hardware), profiles_),
      policy_(find_policy(config_.policy)) {
    assert(policy_ && "an unknown policy is refused when arena.yaml is loaded");
}

const std::vector<SitePool>& Scheduler::pools_of(const JobView& job) {
    return offers_book_.pools(view_, job.node_set);
}

void Scheduler::round() {
    const auto start = Clock::now();
    stats_.survey_ms = stats_.collect_ms = stats_.plan_ms = stats_.decide_ms = stats_.apply_ms = 0;
    host_.survey(asks_to_hold);
    stats_.survey_ms = ms_since(start);
    auto mark = Clock::now();
    view_ = host_.collect();
    stats_.collect_ms = ms_since(mark);
    mark = Clock::now();
    planned_.clear();
    reasons_.clear();
    offers_.clear();
    offers_book_.new_round();
    note_settled();
    note_returned();
    profiles_.update(view_);
    snapshot_ = {};
    stats_.jobs_pending = stats_.jobs_running = 0;
    for (const JobView& job : view_.jobs) consider(job);
    snapshot_.time_s = view_.snapshot.time_s;
    snapshot_.generation = stats_.rounds;
    snapshot_.nodes = view_.snapshot.nodes;
    snapshot_.node_sets = view_.snapshot.node_sets;
    stats_.plan_ms = ms_since(mark);
    mark = Clock::now();
    PolicyOptions options;
    options.reserve_depth = config_.reserve_depth;
    const Decision decision = policy_->decide(snapshot_, offers_, options);
    stats_.decide_ms = ms_since(mark);
    mark = Clock::now();
    apply(decision);
    say_why(decision);
    stats_.apply_ms = ms_since(mark);
    forget_gone();
    stats_.last_ms = ms_since(start);
    stats_.max_ms = std::max(stats_.max_ms, stats_.last_ms);
    stats_.total_ms += stats_.last_ms;
    ++stats_.rounds;
}

void Scheduler::note_settled() {
    for (const JobView& job : view_.jobs) {
        if (job.facts.state != HostJobState::pending)
            settled_since_.erase(job.id);
        else
            settled_since_.try_emplace(job.id, view_.snapshot.time_s);
    }
}

/// Where something ended since the last round, a limit on what may run at once may be met again.
void Scheduler::note_returned() {
    std::int64_t free = 0;
    for (const NodeState& node : view_.snapshot.nodes) free += node.free_cpus + node.free_gpus;
    if (free > free_before_)
        for (auto& [job, blocked] : blocked_)
            std::erase_if(blocked, [](const Blocked& offer) { return offer.limited; });
    free_before_ = free;
}

bool Scheduler::settled(const JobView& job) const {
    if (job.facts.restart == 0) return true;
    const auto at = settled_since_.find(job.id);
    return at != settled_since_.end() && view_.snapshot.time_s >= at->second + settle_s;
}

/// Checkpoints an elastic job whose owner asks for another shape; requeues it after the deadline.
void Scheduler::follow_running(const JobView& job, const Wish& wish) {
    ++stats_.jobs_running;
    const std::optional<Offer>& offer = wishes_.plan(job.id, job.offer_json);
    Last& last = last_[job.id];
    last.uid = job.user_id;
    last.state = "running";
    last.chosen = offer ? std::optional(offer->grid) : std::nullopt;
    if (!job.facts.mark) return;
    const JobMark& mark = *job.facts.mark;
    if (mark.phase == Phase::checkpointing) {
        last.state = "checkpointing";
        const double waited = view_.snapshot.time_s - static_cast<double>(mark.since);
        if (waited > config_.checkpoint_grace_s &&
            host_.requeue_hold(job.id, job.facts.restart).outcome == ApplyOutcome::done)
            ++stats_.requeues;
        return;
    }
    const bool resize = mark.phase == Phase::started && wish.request.elastic && wish.overridden &&
                        wish.problem.empty() && offer && !inside_wish(wish.request, *offer);
    if (!resize) return;
    if (offers_book_.offers(wish.request, wish.fingerprint, pools_of(job))->empty()) {
        last.reason = "keeps running: no plan fits what its comment asks for";
        return;
    }
    const int signal = signal_number(config_.checkpoint_signal);
    if (host_.checkpoint(job.id, job.facts.restart, signal).outcome == ApplyOutcome::done)
        ++stats_.checkpoints;
}

void Scheduler::wait_reason(const JobView& job, const std::string& text) {
    reasons_.push_back({job.id, "Arena: " + text, "arena:v1 state=held", {}});
    Last& last = last_[job.id];
    last.state = "waiting";
    last.reason = text;
    last.chosen.reset();
}

bool Scheduler::wait_for_profile(const JobView& job, const Wish& wish,
                                 const std::vector<SitePool>& pools) {
    std::string waiting;
    std::string& unmeasured = last_[job.id].unmeasured;
    unmeasured.clear();
    for (const SitePool& pool : pools) {
        if (!allows(wish.request.gpu_types, pool.gpu_type)) continue;
        ProfileNeed need;
        need.request = &wish.request;
        need.fingerprint = wish.fingerprint;
        need.gpu_type = pool.gpu_type;
        need.hardware = pool.hardware;
        need.partition = job.partition;
        need.gpus_per_node = pool.gpus_per_node;
        need.max_gpus = wish.request.max_gpus > 0 ? std::min(wish.request.max_gpus, pool.max_gpus)
                                                  : pool.max_gpus;
        need.nodes = &view_.snapshot.node_sets[job.node_set];
        const ProfileAnswer answer = profiles_.require(need, view_);
        if (answer.state == ProfileState::running && waiting.empty()) waiting = answer.text;
        if (answer.state == ProfileState::stand_in && config_.profile_enabled)
            unmeasured += fmt::format("{}{}: {}", unmeasured.empty() ? "" : "; ", pool.gpu_type, answer.text);
    }
    if (waiting.empty()) return false;
    wait_reason(job, waiting);
    return true;
}

/// Slurm preempts for a job that we tried to start, or somebody else holds it.
void Scheduler::follow_unplannable(const JobView& job) {
    Last& last = last_[job.id];
    const auto& mark = job.facts.mark;
    if (!mark || mark->phase != Phase::starting || job.facts.held) {
        last.state = "held by others";
        last.reason = job.reason;
        return;
    }
    last.state = "waiting for preemption";
    const double waited = view_.snapshot.time_s - static_cast<double>(mark->since);
    if (waited <= view_.preemption_wait_s) return;
    if (host_.hold_again(job.id, job.facts.restart).outcome == ApplyOutcome::done) ++stats_.reholds;
}

void Scheduler::consider(const JobView& job) {
    const Wish& wish = wishes_.get(job.id, job.record, job.comment);
    if (job.facts.state == HostJobState::running) return follow_running(job, wish);
    if (job.facts.state != HostJobState::pending) return;
    ++stats_.jobs_pending;
    Last& last = last_[job.id];
    last.uid = job.user_id;
    last.request = wish.request;
    if (!plannable(job.facts)) return follow_unplannable(job);
    if (!wish.problem.empty()) {
        if (!job.facts.held) (void)host_.hold_again(job.id, job.facts.restart);
        return wait_reason(job, wish.problem);
    }
    if (!settled(job)) return wait_reason(job, "waiting a moment after its requeue");
    const std::vector<SitePool>& pools = pools_of(job);
    last.pools = pools;
    if (wish.off) return opt_out(job, wish, pools);
    if (!job.eligible) {
        last.state = "waiting";
        last.reason = "a dependency or its begin time";
        return;
    }
    if (view_.since_recovery_s < recovery_s) {
        if (job.facts.held) wait_reason(job, "waiting a moment after the restart of slurmctld");
        return;
    }
    // A job that already waits with a shape keeps it while a missing type is measured.
    if (job.facts.held && wait_for_profile(job, wish, pools)) return;
    add_job(job, wish, pools);
}

void Scheduler::opt_out(const JobView& job, const Wish& wish, const std::vector<SitePool>& pools) {
    JobState share;
    take_share(share, config_, wish.request, pools);
    Shape shape;
    shape.job = job.id;
    shape.restart = job.facts.restart;
    shape.offer.grid = plain_grid(wish.request, pools);
    shape.cpus_per_task = std::max<std::int64_t>(share.cpus_per_gpu * shape.offer.grid.gpus_per_node, 1);
    shape.memory_mb_per_node = share.memory_mb_per_gpu * shape.offer.grid.gpus_per_node;
    shape.admin_comment = "arena:v1 state=off";
    if (host_.opt_out(shape).outcome == ApplyOutcome::done) ++stats_.opt_outs;
}

std::vector<Offer> Scheduler::unblocked(JobId job, const std::vector<Offer>& offers) {
    const auto at = blocked_.find(job);
    if (at == blocked_.end()) return offers;
    std::erase_if(at->second, [&](const Blocked& b) { return b.until_s <= view_.snapshot.time_s; });
    std::vector<Offer> open;
    for (const Offer& offer : offers) {
        const auto same = [&](const Blocked& b) { return b.grid == offer.grid; };
        if (std::none_of(at->second.begin(), at->second.end(), same)) open.push_back(offer);
    }
    return open;
}

void Scheduler::add_job(const JobView& job, const Wish& wish, const std::vector<SitePool>& pools) {
    OfferList offers = offers_book_.offers(wish.request, wish.fingerprint, pools);
    last_[job.id].offers = offers;
    if (offers->empty()) {
        if (!job.facts.held) (void)host_.hold_again(job.id, job.facts.restart);
        return wait_reason(job, "no plan fits; arena explain " + std::to_string(job.id) + " says why");
    }
    std::vector<Offer> open = unblocked(job.id, *offers);
    if (open.empty()) return wait_reason(job, blocked_[job.id].front().why);
    JobState state;
    state.id = job.id;
    state.priority = job.priority;
    state.submit_s = job.submit_s;
    state.age_s = std::max(view_.snapshot.time_s - job.eligible_s, 0.0);
    state.min_gpus = wish.request.min_gpus;
    state.max_gpus = wish.request.max_gpus > 0 ? wish.request.max_gpus : INT64_MAX;
    take_share(state, config_, wish.request, pools);
    state.node_set = job.node_set;
    state.remaining_iterations = static_cast<double>(wish.request.steps);
    state.time_limit_s = job.time_limit_s;
    state.elastic = wish.request.elastic;
    state.restarts = job.facts.restart;
    if (!job.facts.held) state.current = wishes_.plan(job.id, job.offer_json);
    snapshot_.jobs.push_back(state);
    offers_.emplace(job.id, std::move(open));
    planned_.emplace(job.id, Planned{&job, &wish, &pools, std::move(offers)});
}

Shape Scheduler::shape_for(const Planned& planned, const Offer& offer, std::string_view state) const {
    const Request& request = planned.wish->request;
    const Grid& grid = offer.grid;
    Shape shape;
    shape.job = planned.view->id;
    shape.restart = planned.view->facts.restart;
    shape.offer = offer;
    shape.tasks_per_node = tasks_per_node(request.launcher, grid);
    const auto same = [&](const JobState& job) { return job.id == shape.job; };
    const auto job = std::find_if(snapshot_.jobs.begin(), snapshot_.jobs.end(), same);
    shape.cpus_per_task = std::max<std::int64_t>(
        job->cpus_per_gpu * grid.gpus_per_node / shape.tasks_per_node, 1);
    shape.memory_mb_per_node = job->memory_mb_per_gpu * grid.gpus_per_node;
    shape.environment = launch_environment(request, offer);
    shape.admin_comment = admin_comment(state, offer);
    shape.system_comment = system_comment(*planned.offers, last_.at(shape.job).unmeasured);
    return shape;
}

void Scheduler::block(JobId job, const Grid& grid, const std::string& why, bool limited) {
    blocked_[job].push_back({grid, view_.snapshot.time_s + blocked_s, why, limited});
}

/// The job waits released, at its place, with this shape; only when Slurm keeps refusing is it replanned.
void Scheduler::keep_trying(const Planned& planned, const Offer& offer, const std::string& why) {
    const JobId id = planned.view->id;
    const auto at = busy_.try_emplace(id, Blocked{offer.grid, view_.snapshot.time_s + busy_s, why}).first;
    if (at->second.grid != offer.grid) at->second = {offer.grid, view_.snapshot.time_s + busy_s, why};
    last_[id].state = "waiting with a reservation";
    last_[id].reason = why;
    if (view_.snapshot.time_s < at->second.until_s) return;
    busy_.erase(at);
    if (host_.hold_again(id, planned.view->facts.restart).outcome == ApplyOutcome::done) ++stats_.reholds;
    block(id, offer.grid, why);
    wait_reason(*planned.view, why);
}

void Scheduler::apply_start(const Planned& planned, const Action& action) {
    std::vector<std::string> nodes;
    for (NodeIndex index : action.nodes) nodes.push_back(snapshot_.nodes[index].name);
    const JobId id = planned.view->id;
    const ApplyResult result = host_.start(shape_for(planned, action.offer, "running"), nodes);
    Last& last = last_[id];
    last.chosen = action.offer.grid;
    last.state = "running";
    last.reason = action.reason;
    switch (result.outcome) {
        case ApplyOutcome::done:
            ++stats_.starts;
            busy_.erase(id);
            return;
        case ApplyOutcome::stale:
            ++stats_.stale;
            return;
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
            ++stats_.failed_starts;
            block(id, action.offer.grid, result.text);
            host_.log_error(fmt::format("JobId={} not started with {}: {}", id,
                                        short_form(action.offer.grid), result.text));
            wait_reason(*planned.view, result.text);
    }
}

void Scheduler::apply_release(const Planned& planned, const Action& action) {
    const JobId id = planned.view->id;
    Last& last = last_[id];
    last.state = "waiting with a reservation";
    last.reason = action.reason;
    last.chosen = action.offer.grid;
    if (!planned.view->facts.held) {
        const auto& current = wishes_.plan(id, planned.view->offer_json);
        if (current && same_shape(*current, action.offer)) return;
    }
    const ApplyResult result = host_.release(shape_for(planned, action.offer, "released"));
    if (result.outcome == ApplyOutcome::done) {
        ++stats_.releases;
    } else if (result.outcome == ApplyOutcome::stale) {
        ++stats_.stale;
    } else {
        block(id, action.offer.grid, result.text, result.outcome == ApplyOutcome::limited);
        wait_reason(*planned.view, result.text);
    }
}

/// Released jobs that the decision no longer starts or keeps waiting with a shape are held again.
void Scheduler::take_back(const std::map<JobId, const Action*>& actions) {
    for (const auto& [id, planned] : planned_) {
        if (planned.view->facts.held || actions.contains(id)) continue;
        if (host_.hold_again(id, planned.view->facts.restart).outcome == ApplyOutcome::done)
            ++stats_.reholds;
    }
}

void Scheduler::apply(const Decision& decision) {
    std::map<JobId, const Action*> actions;
    for (const Action& action : decision.actions) actions.emplace(action.job, &action);
    take_back(actions);
    for (const Action& action : decision.actions) {
        const auto at = planned_.find(action.job);
        if (at == planned_.end()) continue;
        // Whoever stands before it in Slurm's queue must not be overtaken: with its shape, at its
        // place, Slurm's own backfill starts it as soon as that delays nobody.
        const bool start = action.kind == ActionKind::start && !at->second.view->ordinary_ahead;
        if (start)
            apply_start(at->second, action);
        else if (action.kind != ActionKind::profile && action.kind != ActionKind::resize &&
                 action.kind != ActionKind::preempt)
            apply_release(at->second, action);
    }
}

void Scheduler::say_why(const Decision& decision) {
    for (const auto& [id, why] : decision.waiting) {
        const auto at = planned_.find(id);
        if (at == planned_.end()) continue;
        Last& last = last_[id];
        last.state = "waiting";
        last.reason = why;
        last.chosen.reset();
        reasons_.push_back({id, "Arena: " + why, "arena:v1 state=held",
                            system_comment(*at->second.offers, last.unmeasured)});
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
    std::erase_if(blocked_, gone);
    std::erase_if(busy_, gone);
    std::erase_if(last_, gone);
}

}  // namespace arena
