// SPDX-License-Identifier: GPL-2.0-or-later
// The first half of a round: what Slurm did since the last one, what each job wants, which jobs
// take part in the decision and as what. See scheduler.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "plugin/sched/round/scheduler.h"
#include "plugin/sched/round/shares.h"
#include "policy/work_left.h"

namespace arena {
namespace {

/// A batch launch in the second of the last kill is refused by slurmd: wait for a later one.
constexpr double settle_s = 2;
/// A controller that died forgot its last jobs and gives their ids again, while nodes still end the
/// forgotten copies: a batch launch under such an id drains the node. Seen up to 5 s after a
/// restart.
constexpr double recovery_s = 8;

/// A signal that comes before the script has said what to do with it ends the job.
constexpr double ready_s = 5;

/// Looks at what ready jobs would take, in one round: each is a decision of the policy.
constexpr std::size_t max_looks = 4;

/// The names that arena.yaml accepts.
int signal_number(std::string_view name) {
    constexpr std::pair<std::string_view, int> numbers[] = {
        {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"TERM", SIGTERM}, {"INT", SIGINT},
        {"HUP", SIGHUP},   {"CONT", SIGCONT}, {"URG", SIGURG},   {"QUIT", SIGQUIT}};
    for (const auto& [known, number] : numbers)
        if (known == name) return number;
    return SIGUSR1;
}

/// False once its user has changed the wish that it was started by.
bool inside_wish(const Request& request, const Offer& offer) {
    const std::int64_t gpus = offer.grid.gpus();
    const bool in_range =
        gpus >= request.min_gpus && (request.max_gpus == 0 || gpus <= request.max_gpus);
    return in_range && allows(request.gpu_types, offer.grid.gpu_type) &&
           matches(request.pin, offer.plan);
}

bool offered(const std::vector<Offer>& offers, const std::string& gpu_type) {
    return std::any_of(offers.begin(), offers.end(),
                       [&](const Offer& offer) { return offer.grid.gpu_type == gpu_type; });
}

/// What an opted-out job asks for: its smallest count, of the first type it allows that has as
/// many, on as few nodes as equal shares go. No such type: any GPU (a job without --arena-types).
Grid plain_grid(const Request& request, const std::vector<SitePool>& pools) {
    const std::int64_t gpus = std::max<std::int64_t>(request.min_gpus, 1);
    const SitePool* chosen = nullptr;
    for (const SitePool& pool : pools)
        if (!chosen && allows(request.gpu_types, pool.gpu_type) && pool.max_gpus >= gpus)
            chosen = &pool;
    Grid grid;
    grid.gpus_per_node = gpus;
    if (!request.gpu_types.empty())
        grid.gpu_type = chosen ? chosen->gpu_type : request.gpu_types.front();
    if (!chosen || chosen->gpus_per_node <= 0) return grid;
    grid.gpus_per_node = std::min(gpus, chosen->gpus_per_node);
    while (gpus % grid.gpus_per_node != 0) --grid.gpus_per_node;
    grid.nodes = gpus / grid.gpus_per_node;
    return grid;
}

/// Whether MinNodes and MaxNodes of some partition of the job allow one of its offers.
bool fits_node_limits(const JobView& job, const std::vector<Offer>& offers) {
    const auto allowed = [&](const Offer& offer) {
        return std::any_of(job.places.begin(), job.places.end(), [&](const JobPlace& at) {
            return offer.grid.nodes >= at.place.min_nodes && offer.grid.nodes <= at.place.max_nodes;
        });
    };
    return job.places.empty() || std::any_of(offers.begin(), offers.end(), allowed);
}

}  // namespace

void Scheduler::note_settled() {
    for (const JobView& job : view_.jobs) {
        if (job.facts.state == HostJobState::pending) {
            settled_since_.try_emplace(job.id, view_.steady_s);
        } else {
            settled_since_.erase(job.id);
            profile_wait_since_.erase(job.id);
        }
    }
}

/// Where something ended since the last round, a limit on what may run at once may be met again;
/// where nodes came, a shape that none could hold.
void Scheduler::note_returned() {
    std::int64_t free = 0, up = 0;
    for (std::size_t i = 0; i < view_.snapshot.nodes.size(); ++i) {
        const NodeState& node = view_.snapshot.nodes[i];
        free += node.free_cpus + node.free_gpus;
        if (node.up) up += 1 + view_.node_cpus[i] + view_.node_memory_mb[i] + node.total_gpus;
    }
    if (up > up_before_) {  // a node came back, or has more than it had
        blocked_.clear();
        refusals_.forget_all();
    }
    up_before_ = up;
    if (free > free_before_)
        for (auto& [job, blocked] : blocked_)
            std::erase_if(blocked, [](const Blocked& offer) { return offer.limited; });
    free_before_ = free;
}

bool Scheduler::settled(const JobView& job) const {
    if (job.facts.restart == 0) return true;
    const auto at = settled_since_.find(job.id);
    return at != settled_since_.end() && view_.steady_s >= at->second + settle_s;
}

/// Tells the job to save its state and exit. `moved`: by the policy, not by its owner's wish.
bool Scheduler::checkpoint(const JobView& job, bool moved) {
    const auto done = static_cast<std::int64_t>(done_iterations(job));
    const int signal = signal_number(config_.checkpoint_signal);
    if (host_.checkpoint(job.id, job.facts.restart, signal, done, moved).outcome !=
        ApplyOutcome::done)
        return false;
    ++stats_.checkpoints;
    return true;
}

/// Up to its last checkpoint as its mark has it, and since its start as the estimate has it.
double Scheduler::done_iterations(const JobView& job) {
    if (!job.facts.mark) return 0;
    const auto done = static_cast<double>(job.facts.mark->done);
    const std::optional<Offer>& offer = wishes_.plan(job.id, job.offer_json);
    if (job.facts.mark->phase != Phase::started || !offer || !(offer->estimate.iteration_s > 0))
        return done;
    const double restart_s = policy_options_.restart.seconds(offer->grid.gpus());
    const double worked_s = view_.snapshot.time_s - job.start_s - restart_s;
    return done + std::max(0.0, std::floor(worked_s / offer->estimate.iteration_s));
}

/// Seconds since a time of the wall clock in Slurm's record of the job: by that clock when it is
/// first seen, from then on by the monotonic one, so that setting the clock ends no wait and makes
/// none.
double Scheduler::age_s(JobId job, double since_s) {
    const double first_s = view_.steady_s - std::max(view_.snapshot.time_s - since_s, 0.0);
    return view_.steady_s - ages_.try_emplace({job, since_s}, first_s).first->second;
}

bool Scheduler::ready_for_signals(const JobView& job) {
    return !job.configuring && age_s(job.id, job.start_s) >= ready_s;
}

/// Whether Arena itself may move the running job now. One that somebody holds would not come back.
bool Scheduler::movable(const JobView& job, const Wish& wish) {
    const JobMark& mark = *job.facts.mark;
    const double now_s = view_.snapshot.time_s;
    if (!wish.request.elastic || mark.phase != Phase::started || mark.hold != OtherHold::none)
        return false;
    if (!job.nodes_open || !ready_for_signals(job) ||
        age_s(job.id, job.start_s) < config_.cooldown_s)
        return false;
    // One of the future is of a clock that was set back since.
    const auto recent = [&](std::int64_t at) {
        return std::abs(now_s - static_cast<double>(at)) < 3600;
    };
    return std::count_if(mark.moves.begin(), mark.moves.end(), recent) < config_.moves_per_hour;
}

/// Requeues a job that did not exit before the deadline. Until it is back it counts as waiting and
/// its GPUs as free, so that the decision that moved it stands.
void Scheduler::follow_checkpointing(const JobView& job, const Wish& wish, const Offer& offer) {
    Last& last = last_[job.id];
    last.state = "checkpointing";
    const double waited = age_s(job.id, static_cast<double>(job.facts.mark->since));
    if (job.facts.state == HostJobState::running && waited > config_.checkpoint_grace_s &&
        host_.requeue_hold(job.id, job.facts.restart).outcome == ApplyOutcome::done)
        ++stats_.requeues;
    if (wish.problem.empty() && !wish.off && job.facts.mark->hold == OtherHold::none &&
        job.nodes_open)
        add_returning(job, wish, offer);
}

/// Checkpoints an elastic job whose owner asks for another shape; others the policy may move.
void Scheduler::follow_running(const JobView& job, const Wish& wish) {
    ++stats_.jobs_running;
    const std::optional<Offer>& offer = wishes_.plan(job.id, job.offer_json);
    Last& last = last_[job.id];
    last.uid = job.user_id;
    last.state = "running";
    last.chosen = offer ? std::optional(offer->grid) : std::nullopt;
    if (!job.facts.mark || job.facts.mark->newer || !offer) return;
    const JobMark& mark = *job.facts.mark;
    if (mark.phase == Phase::checkpointing) return follow_checkpointing(job, wish, *offer);
    if (mark.phase != Phase::started || !wish.problem.empty()) return;
    const bool resize = wish.request.elastic && !inside_wish(wish.request, *offer);
    if (!resize) return add_running(job, wish, *offer);
    if (!ready_for_signals(job)) return;
    const OfferList offers =
        offers_book_.offers(job.user_id, wish.request, wish.fingerprint, pools_of(job));
    if (!offers || offers->empty()) {
        last.reason = offers ? "keeps running: no plan fits what its comment asks for"
                             : "keeps running: what its comment asks for waits to be planned";
        return;
    }
    (void)checkpoint(job, false);
}

void Scheduler::wait_reason(const JobView& job, const std::string& text) {
    reasons_.push_back(
        {job.id, "Arena: " + with_refused_update(job.id, text), "arena:v1 state=held", {}});
    Last& last = last_[job.id];
    last.state = "waiting";
    last.reason = text;
    last.chosen.reset();
}

/// It waits for something that is Slurm's to give: in Slurm's words, that people know how to look
/// up.
void Scheduler::wait_for_slurm(const JobView& job, const std::string& reason) {
    if (!job.facts.held) (void)host_.hold_again(job.id, job.facts.restart);
    wait_reason(job, reason);
    if (!refused_updates_.contains(job.id)) reasons_.back().text = reason;
}

/// A run that others keep from beginning, or that begins late, is for later jobs.
bool Scheduler::worth_waiting(const JobView& job, const ProfileAnswer& answer) {
    if (answer.state != ProfileState::running) return false;
    const double now_s = view_.steady_s;
    const double since_s = profile_wait_since_.try_emplace(job.id, now_s).first->second;
    return std::min(answer.began_s, now_s) <= since_s + config_.profile_max_wait_s;
}

bool Scheduler::wait_for_profile(const JobView& job, const Wish& wish,
                                 const std::vector<SitePool>& pools) {
    std::string waiting;
    std::string& unmeasured = last_[job.id].unmeasured;
    unmeasured.clear();
    if (!config_.profile_enabled) return false;
    const OfferList offers =
        offers_book_.offers(job.user_id, wish.request, wish.fingerprint, pools);
    if (!offers) return false;  // it waits to be planned
    for (const SitePool& pool : pools) {
        // What no plan uses need not be measured: a pin that fits nothing took GPUs from everybody.
        if (!offered(*offers, pool.gpu_type)) continue;
        ProfileNeed need;
        need.request = &wish.request;
        need.fingerprint = wish.fingerprint;
        need.job = job.id;
        need.user_id = job.user_id;
        need.gpu_type = pool.gpu_type;
        need.hardware = pool.hardware;
        need.partition = job.partition;
        need.gpus_per_node = pool.gpus_per_node;
        need.max_gpus = wish.request.max_gpus > 0 ? std::min(wish.request.max_gpus, pool.max_gpus)
                                                  : pool.max_gpus;
        need.nodes = &view_.snapshot.node_sets[job.node_set];
        need.eligible_s = job.eligible_s;
        need.ordinary_start_s = job.ordinary_start_s;
        need.taken = &taken_;
        if (profiles_.would_take(need, view_)) look_ahead();
        const ProfileAnswer answer = profiles_.require(need, view_);
        const bool waits = worth_waiting(job, answer);
        if (waits && waiting.empty()) waiting = answer.text;
        if (!waits && answer.state != ProfileState::ready)
            unmeasured += fmt::format(
                "{}{}: {}{}", unmeasured.empty() ? "" : "; ", pool.gpu_type,
                answer.state == ProfileState::running ? "not waited for any longer: " : "",
                answer.text);
    }
    if (waiting.empty()) return false;
    wait_reason(job, waiting);
    return true;
}

/// Slurm preempts for a job that we tried to start, or somebody else holds it.
void Scheduler::follow_unplannable(const JobView& job) {
    Last& last = last_[job.id];
    const auto& mark = job.facts.mark;
    if (!mark || mark->newer || mark->phase != Phase::starting || job.facts.held) {
        last.state = "held by others";
        last.reason =
            mark && mark->newer
                ? "a later version of Arena planned it: install that again, or cancel the job"
                : job.reason;
        return;
    }
    last.state = "waiting for preemption";
    const double waited = age_s(job.id, static_cast<double>(mark->since));
    if (waited <= view_.preemption_wait_s) return;
    if (host_.hold_again(job.id, job.facts.restart).outcome == ApplyOutcome::done) ++stats_.reholds;
}

void Scheduler::consider(const JobView& job) {
    if (job.changing) return;
    const SharedWish& shared = wishes_.get(job.id, job.record, job.comment);
    const Wish& wish = *shared;
    const bool saves = job.facts.mark && job.facts.mark->phase == Phase::checkpointing;
    const bool ends = job.facts.state == HostJobState::completing && saves;
    if (job.facts.state == HostJobState::running || ends) return follow_running(job, wish);
    if (job.facts.state != HostJobState::pending) return;
    ++stats_.jobs_pending;
    Last& last = last_[job.id];
    last.uid = job.user_id;
    last.wish = shared;
    if (!plannable(job.facts)) return follow_unplannable(job);
    if (!wish.problem.empty()) {
        if (!job.facts.held) (void)host_.hold_again(job.id, job.facts.restart);
        return wait_reason(job, wish.problem);
    }
    const std::vector<SitePool>& pools = pools_of(job);
    last.pools = offers_book_.shared_pools(view_, job);
    if (wish.off) return opt_out(job, wish, pools);
    if (!job.eligible) {
        last.state = "waiting";
        last.reason = job.reason;
        return;
    }
    if (!job.no_place.empty()) return wait_for_slurm(job, job.no_place);
    if (view_.since_recovery_s < recovery_s) {
        if (job.facts.held) wait_reason(job, "waiting a moment after the restart of slurmctld");
        return;
    }
    if (!job.no_nodes.empty()) return wait_for_slurm(job, job.no_nodes);
    // A job that already waits with a shape keeps it while a missing type is measured.
    if (job.facts.held && wait_for_profile(job, wish, pools)) return;
    add_waiting(job, wish, pools);
}

void Scheduler::opt_out(const JobView& job, const Wish& wish, const std::vector<SitePool>& pools) {
    JobState share;
    take_share(share, config_, wish.request, pools);
    Shape shape;
    shape.job = job.id;
    shape.restart = job.facts.restart;
    shape.basis = job.basis;
    shape.offer.grid = plain_grid(wish.request, pools);
    shape.cpus_per_task =
        std::max<std::int64_t>(share.cpus_per_gpu * shape.offer.grid.gpus_per_node, 1);
    write_memory(shape, wish.request, share);
    shape.admin_comment = "arena:v1 state=off";
    if (host_.opt_out(shape).outcome == ApplyOutcome::done) ++stats_.opt_outs;
}

SharedOffers Scheduler::unblocked(JobId job, const OfferList& offers) {
    const auto at = blocked_.find(job);
    if (at == blocked_.end()) return offers;
    std::erase_if(at->second, [&](const Blocked& b) { return b.until_s <= view_.steady_s; });
    if (at->second.empty()) return offers;
    std::vector<Offer> open;
    for (const Offer& offer : *offers) {
        const auto same = [&](const Blocked& b) { return b.grid == offer.grid; };
        if (std::none_of(at->second.begin(), at->second.end(), same)) open.push_back(offer);
    }
    return open;
}

JobState Scheduler::state_of(const JobView& job, const Wish& wish,
                             const std::vector<SitePool>& pools) {
    const double now_s = view_.snapshot.time_s;
    JobState state;
    state.id = job.id;
    state.priority = job.priority;
    state.submit_s = job.submit_s;
    // Its place in Slurm's queue counts from the requeue; the aging bound from when it could first
    // run.
    const bool again = job.facts.mark && job.facts.mark->waited_since > 0;
    const double waited_since_s =
        again ? static_cast<double>(job.facts.mark->waited_since) : job.eligible_s;
    state.age_s = std::max(now_s - std::min(waited_since_s, job.eligible_s), 0.0);
    state.min_gpus = wish.request.min_gpus;
    state.max_gpus = wish.request.max_gpus > 0 ? wish.request.max_gpus : INT64_MAX;
    take_share(state, config_, wish.request, pools);
    state.node_set = job.node_set;
    for (const JobPlace& place : job.places) state.places.push_back(place.place);
    state.done_iterations = done_iterations(job);
    if (wish.request.steps > 0) set_work_left(state, static_cast<double>(wish.request.steps));
    state.time_limit_s = job.time_limit_s;
    state.elastic = wish.request.elastic;
    state.restarts = job.facts.restart;
    return state;
}

/// After all jobs were considered: profile runs that began meanwhile have taken nodes, and what
/// jobs that save their state give back is decided about already.
void Scheduler::see_what_is_free() {
    snapshot_.nodes = view_.snapshot.nodes;
    for (const Return& back : returns_) {
        NodeState& node = snapshot_.nodes[back.node];
        node.free_gpus += back.gpus;
        node.free_cpus += back.cpus;
        node.free_memory_mb += back.memory_mb;
    }
}

/// What the jobs considered so far would start with, were they alone: profile runs of those that
/// stand behind them leave it to them.
void Scheduler::look_ahead() {
    if (ready_ == ready_seen_ || looks_ == max_looks) return;
    ready_seen_ = ready_;
    ++looks_;
    see_what_is_free();
    taken_.assign(view_.snapshot.nodes.size(), {});
    const Decision decision = policy_->decide(snapshot_, offers_, policy_options_);
    for (const Action& action : decision.actions) {
        const auto at = planned_.find(action.job);
        if (action.kind != ActionKind::start || at == planned_.end()) continue;
        if (at->second.role == Role::waits && !at->second.view->ordinary_ahead())
            keep_for(at->second, action);
    }
}

/// Unless a job that gives it back still has some of it.
void Scheduler::keep_for(const Planned& planned, const Action& action) {
    const std::int64_t gpus = action.offer.grid.gpus_per_node;
    const auto free = [&](NodeIndex index) {
        return view_.snapshot.nodes[index].free_gpus - taken_[index].gpus >= gpus;
    };
    if (!std::all_of(action.nodes.begin(), action.nodes.end(), free)) return;
    const JobState& job = snapshot_.jobs[planned.state];
    for (NodeIndex index : action.nodes) {
        taken_[index].gpus += gpus;
        taken_[index].cpus += gpus * job.cpus_per_gpu;
        taken_[index].memory_mb += gpus * job.memory_mb_per_gpu;
    }
}

void Scheduler::take_part(const JobView& job, const Wish& wish, JobState state, OfferList offers,
                          Role role) {
    planned_.emplace(job.id, Planned{&job, &wish, &pools_of(job), std::move(offers), role,
                                     snapshot_.jobs.size()});
    snapshot_.jobs.push_back(std::move(state));
}

/// Of a job that has its nodes: none as long as it waits to be planned, and then nothing moves it.
OfferList Scheduler::known_offers(const JobView& job, const Wish& wish,
                                  const std::vector<SitePool>& pools) {
    OfferList offers = offers_book_.offers(job.user_id, wish.request, wish.fingerprint, pools);
    return offers ? offers : std::make_shared<const std::vector<Offer>>();
}

void Scheduler::add_running(const JobView& job, const Wish& wish, const Offer& offer) {
    const std::vector<SitePool>& pools = pools_of(job);
    OfferList offers = known_offers(job, wish, pools);
    JobState state = state_of(job, wish, pools);
    patience_.erase(job.id);
    state.phase = JobPhase::running;
    state.elastic = movable(job, wish);
    state.current = offer;
    ++state.restarts;  // Slurm does not count the start that it runs from
    // What runs and what it could have instead are compared by what is known now.
    for (const Offer& now : *offers)
        if (now.grid == offer.grid && now.plan == offer.plan) state.current = now;
    last_[job.id].offers = offers;
    state.nodes = job.nodes;
    state.start_s = job.start_s;
    if (state.time_limit_s > 0)
        state.time_limit_s =
            std::max(state.time_limit_s - (view_.snapshot.time_s - job.start_s), 1.0);
    offers_.emplace(job.id, offers);
    take_part(job, wish, std::move(state), std::move(offers), Role::runs);
}

void Scheduler::add_returning(const JobView& job, const Wish& wish, const Offer& offer) {
    const std::vector<SitePool>& pools = pools_of(job);
    OfferList offers = known_offers(job, wish, pools);
    JobState state = state_of(job, wish, pools);
    const std::int64_t gpus = offer.grid.gpus_per_node;
    for (NodeIndex index : job.nodes)
        returns_.push_back(
            {index, gpus, gpus * state.cpus_per_gpu, gpus * state.memory_mb_per_gpu});
    offers_.emplace(job.id, offers);
    take_part(job, wish, std::move(state), std::move(offers), Role::returns);
}

/// What it asks for beside its GPUs is more than any node has, whatever the shape: by the rules,
/// and in the words, of a submission. "" = some offer has nodes.
std::string Scheduler::why_no_node(const JobView& job, const Wish& wish, const JobState& state) {
    const std::vector<TypePool>& pools =
        pools_with(job.node_set, false, needs_of(state, wish.request));
    const OfferList& offers = last_[job.id].offers;
    if (std::any_of(offers->begin(), offers->end(),
                    [&](const Offer& offer) { return can_hold(pools, offer); }))
        return {};
    ClusterFacts facts;
    facts.place = "partition " + job.partition;
    for (NodeIndex index : view_.snapshot.node_sets[job.node_set]) {
        const NodeState& node = view_.snapshot.nodes[index];
        facts.partition.push_back({{{node.gpu_type, node.total_gpus}},
                                   view_.node_cpus[index],
                                   view_.node_memory_mb[index]});
        facts.types.push_back(node.gpu_type);
    }
    const Status fits = check_cluster(wish.request, 0, facts, site_);
    return fits ? "no node that it may use has the CPUs and memory of any of its shapes"
                : fits.error().message();
}

/// Asked of the planner once for each list: it takes as long as planning did, and may be in its
/// queue.
const std::string& Scheduler::why_no_plan(const JobView& job, const Wish& wish,
                                          const OfferList& none) {
    Last& last = last_[job.id];
    if (last.none == none && !last.none_why.empty()) return last.none_why;
    last.none = none;
    last.none_why = offers_book_.why_none(job.user_id, wish.request, pools_of(job));
    return last.none_why;
}

void Scheduler::add_waiting(const JobView& job, const Wish& wish,
                            const std::vector<SitePool>& pools) {
    OfferList offers = offers_book_.offers(job.user_id, wish.request, wish.fingerprint, pools);
    last_[job.id].offers = offers;
    // One that waits with a shape keeps it meanwhile.
    if (!offers) return wait_reason(job, "waits to be planned");
    if (offers->empty()) {
        if (!job.facts.held) (void)host_.hold_again(job.id, job.facts.restart);
        const std::string& why = why_no_plan(job, wish, offers);
        return wait_reason(job, why.empty() ? "no plan fits" : why);
    }
    if (const std::string id = std::to_string(job.id);
        job.facts.held && refusals_.rests(id, view_.steady_s))
        return wait_reason(job, refusals_.why(id));
    JobState state = state_of(job, wish, pools);
    if (std::string why = why_no_node(job, wish, state); !why.empty()) {
        if (!job.facts.held) (void)host_.hold_again(job.id, job.facts.restart);
        return wait_reason(job, why);
    }
    if (!fits_node_limits(job, *offers)) return wait_for_slurm(job, "PartitionNodeLimit");
    const SharedOffers open = unblocked(job.id, offers);
    if (open.empty()) return wait_reason(job, blocked_[job.id].front().why);
    const Role role = settled(job) ? Role::waits : Role::returns;
    if (role == Role::returns) wait_reason(job, "waiting a moment after its requeue");
    if (!job.facts.held) state.current = wishes_.plan(job.id, job.offer_json);
    if (const auto told = patience_.find(job.id); told != patience_.end())
        state.patient_until_s = told->second;
    offers_.emplace(job.id, open);
    if (role == Role::waits && !job.ordinary_ahead()) ++ready_;
    take_part(job, wish, std::move(state), std::move(offers), role);
}

}  // namespace arena
