// SPDX-License-Identifier: GPL-2.0-or-later
// The event loop: see simulator.h. The snapshot and the offers live through the whole simulation
// and change in place, so that a round costs time in the jobs there are, not in the trace.
#include "sim/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <queue>

#include "base/statistics.h"
#include "policy/work_left.h"

namespace arena::sim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double never = std::numeric_limits<double>::infinity();
/// Idle rounds after which a policy that starts nothing on an empty cluster is called stuck.
constexpr int stuck_rounds = 100;

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// What the simulator knows of a job in the system beyond what the snapshot tells the policy.
struct Live {
    std::uint32_t job = 0;   ///< index into Workload::jobs
    double work = 0;         ///< true iterations
    double said = 0;         ///< what the user said of them
    double limit_s = 0;      ///< the user's, of a run as requested
    double done = 0;         ///< when the GPUs were given
    double progress_s = 0;   ///< first progress on these GPUs
    double iteration_s = 0;  ///< true, on these GPUs
    std::uint32_t offer = 0;
    std::uint32_t version = 0;  ///< of its completion event
    double gpu_s = 0;           ///< held before these GPUs
    double held_s = 0;          ///< time with GPUs before these
    double demand_gpu_s = 0;    ///< asked for by all jobs present, until this one came
};

struct Completion {
    double at_s;
    JobId id;
    std::uint32_t version;
    bool operator>(const Completion& o) const {
        return std::tie(at_s, id) > std::tie(o.at_s, o.id);
    }
};

class Simulation {
  public:
    Simulation(const Workload& workload, const PolicyFunction& decide, const SimulationOptions& o)
        : workload_(workload), decide_(decide), options_(o), policy_options_(o.policy) {
        policy_options_.any_layout = true;
        policy_options_.explain = false;
        policy_options_.reserve_depth = 0;  // there are no jobs but the policy's own
        policy_options_.shares = workload.shares;
        snapshot_.nodes = workload.nodes;
        snapshot_.node_sets.emplace_back(workload.nodes.size());
        for (NodeIndex i = 0; i < workload.nodes.size(); ++i) snapshot_.node_sets[0][i] = i;
    }
    Result<Metrics> run(std::string_view name);

  private:
    void drop_stale_completions();
    [[nodiscard]] double next_event_s() const;
    void arrive();
    void complete();
    void update_jobs();
    Status decide();
    Status apply(const Decision&);
    Status check_stuck(const Decision&);
    Result<std::uint32_t> check_offer(const Action&, const JobState&, const Live&) const;
    Status take_nodes(const Action&);
    void give_up(std::size_t at);
    void free_nodes(const JobState&);
    Status begin(std::size_t at, const Action&);
    void end_stay(const JobState&, Live&, double done);
    [[nodiscard]] double done_now(const JobState&, const Live&) const;
    void say_what_is_left(JobState&, const Live&) const;
    [[nodiscard]] std::size_t find(JobId) const;
    void account(const JobState&, const Live&, bool finished);
    void change_demand(double gpus);
    [[nodiscard]] double fair_jct_s(const JobState&, const Live&) const;
    Metrics finish(std::string_view name);
    void finish_speeds(Metrics&);
    [[nodiscard]] const Profile& profile(const Live& l) const {
        return workload_.profiles[workload_.jobs[l.job].profile];
    }
    Error broken(const Action& action, std::string_view what) const {
        return environment_error(fmt::format("at {:.3f} s the policy's {} of job {} {}",
                                             snapshot_.time_s, to_string(action.kind), action.job,
                                             what));
    }

    const Workload& workload_;
    const PolicyFunction& decide_;
    const SimulationOptions& options_;
    PolicyOptions policy_options_;
    Snapshot snapshot_;
    Offers offers_;
    std::vector<Live> live_;  ///< parallel to snapshot_.jobs
    std::priority_queue<Completion, std::vector<Completion>, std::greater<>> completions_;
    std::size_t arrived_ = 0;  ///< jobs of the workload that came
    std::size_t running_ = 0;
    double due_s_ = never;  ///< a decision is wanted at this time
    double last_decision_s_ = -never;
    int idle_rounds_ = 0;
    Metrics metrics_;
    std::vector<double> decision_ms_;
    std::vector<std::pair<double, double>> speed_changes_;         ///< (time, samples/s)
    double demand_gpus_ = 0, demand_gpu_s_ = 0, demand_at_s_ = 0;  ///< as requested, jobs present
    double samples_ = 0, normalized_s_ = 0, held_gpu_s_ = 0;
};

std::size_t Simulation::find(JobId id) const {
    const auto at =
        std::lower_bound(snapshot_.jobs.begin(), snapshot_.jobs.end(), id,
                         [](const JobState& job, JobId wanted) { return job.id < wanted; });
    if (at == snapshot_.jobs.end() || at->id != id) return snapshot_.jobs.size();
    return static_cast<std::size_t>(at - snapshot_.jobs.begin());
}

double Simulation::done_now(const JobState& job, const Live& live) const {
    if (job.phase != JobPhase::running) return live.done;
    const double for_s = std::max(0.0, snapshot_.time_s - live.progress_s);
    return std::min(live.work, live.done + for_s / live.iteration_s);
}

double Simulation::next_event_s() const {
    double at_s = due_s_;
    if (arrived_ < workload_.jobs.size()) at_s = std::min(at_s, workload_.jobs[arrived_].submit_s);
    if (!completions_.empty()) at_s = std::min(at_s, completions_.top().at_s);
    if (!snapshot_.jobs.empty() && !options_.only_events) {
        const double rounds = std::floor(snapshot_.time_s / options_.round_s) + 1;
        double round_at_s = rounds * options_.round_s;
        // floor(k * r / r) is k - 1 for some r, and the round at hand would come again for ever.
        if (round_at_s <= snapshot_.time_s) round_at_s += options_.round_s;
        at_s = std::min(at_s, round_at_s);
    }
    return at_s;
}

void Simulation::arrive() {
    while (arrived_ < workload_.jobs.size() &&
           workload_.jobs[arrived_].submit_s <= snapshot_.time_s) {
        const SimJob& job = workload_.jobs[arrived_];
        const Profile& profile = workload_.profiles[job.profile];
        const auto index = static_cast<std::uint32_t>(arrived_++);
        JobState& state = snapshot_.jobs.emplace_back();
        state.id = index + 1;
        state.priority = job.priority;
        state.submit_s = job.submit_s;
        state.max_gpus = INT64_MAX;
        state.cpus_per_gpu = 0;
        const double said_factor = Workload::said_factor(options_.errors, index);
        state.remaining_iterations = job.iterations * said_factor;
        state.time_limit_s = job.time_limit_s * said_factor;
        state.elastic = Workload::is_elastic(options_.elastic_share, options_.errors.seed, index);
        state.requested_type = profile.offers[job.asked].grid.gpu_type;
        state.requested_gpus = profile.offers[job.asked].grid.gpus();
        state.account = workload_.accounts[job.account];
        offers_.emplace_hint(offers_.end(), state.id, profile.offers);
        Live& live = live_.emplace_back();
        live.job = index;
        live.work = job.iterations * Workload::work_factor(options_.errors, index);
        live.said = state.remaining_iterations;
        if (options_.work_unknown) {
            if (!job.limit_stated)
                state.time_limit_s *= Workload::limit_factor(options_.errors.seed, index);
            live.said = state.time_limit_s / profile.offers[job.asked].estimate.iteration_s;
            state.remaining_iterations = 0;
        }
        live.limit_s = state.time_limit_s;
        metrics_.outcomes.emplace_back();
        metrics_.elastic += state.elastic ? 1 : 0;
        change_demand(static_cast<double>(state.requested_gpus));
        live.demand_gpu_s = demand_gpu_s_;
    }
}

void Simulation::change_demand(double gpus) {
    demand_gpu_s_ += demand_gpus_ * (snapshot_.time_s - demand_at_s_);
    demand_at_s_ = snapshot_.time_s;
    demand_gpus_ += gpus;
}

/// How long the job would take with what it asked for, slowed as much as the jobs present over its
/// life asked for more than there is: an equal part for everybody.
double Simulation::fair_jct_s(const JobState& job, const Live& live) const {
    const Profile& p = profile(live);
    const double asked_s = p.offers[workload_.jobs[live.job].asked].estimate.iteration_s;
    const double alone_s =
        live.work * asked_s + policy_options_.restart.seconds(job.requested_gpus);
    const double life_s = std::max(snapshot_.time_s - job.submit_s, 1e-9);
    const double demand = demand_gpu_s_ + demand_gpus_ * (snapshot_.time_s - demand_at_s_);
    const double mean_demand = (demand - live.demand_gpu_s) / life_s;
    return alone_s * std::max(1.0, mean_demand / static_cast<double>(workload_.gpus()));
}

void Simulation::account(const JobState& job, const Live& live, bool finished) {
    JobOutcome& outcome = metrics_.outcomes[live.job];
    outcome.finished = finished;
    outcome.jct_s = snapshot_.time_s - job.submit_s;
    outcome.unfairness = outcome.jct_s / fair_jct_s(job, live);
    outcome.restarts = job.restarts;
    outcome.queuing_s = std::max(0.0, outcome.jct_s - live.held_s);
    metrics_.finished += finished ? 1 : 0;
}

/// Closes a stay: what was held and what was done in it.
void Simulation::end_stay(const JobState& job, Live& live, double done) {
    const Profile& p = profile(live);
    const double now_s = snapshot_.time_s, iterations = done - live.done;
    const auto gpus = static_cast<double>(job.current->grid.gpus());
    const double asked_s = p.offers[workload_.jobs[live.job].asked].estimate.iteration_s;
    samples_ += iterations * static_cast<double>(p.batch);
    normalized_s_ += iterations * asked_s;
    held_gpu_s_ += gpus * (now_s - job.start_s);
    live.gpu_s += gpus * (now_s - job.start_s);
    live.held_s += now_s - job.start_s;
    if (now_s > live.progress_s) {
        const double speed = static_cast<double>(p.batch) / live.iteration_s;
        speed_changes_.emplace_back(live.progress_s, speed);
        speed_changes_.emplace_back(now_s, -speed);
    }
    live.done = done;
    ++live.version;
    if (!options_.keep_stays) return;
    metrics_.stays.push_back({live.job,
                              live.offer,
                              job.start_s,
                              live.progress_s,
                              now_s,
                              live.iteration_s,
                              {job.nodes.begin(), job.nodes.end()}});
}

void Simulation::free_nodes(const JobState& job) {
    for (const NodeIndex n : job.nodes) {
        snapshot_.nodes[n].free_gpus += job.current->grid.gpus_per_node;
    }
}

void Simulation::drop_stale_completions() {
    while (!completions_.empty()) {
        const std::size_t at = find(completions_.top().id);
        if (at < live_.size() && live_[at].version == completions_.top().version) return;
        completions_.pop();
    }
}

void Simulation::complete() {
    for (drop_stale_completions();
         !completions_.empty() && completions_.top().at_s <= snapshot_.time_s;
         drop_stale_completions()) {
        const std::size_t at = find(completions_.top().id);
        completions_.pop();
        JobState& job = snapshot_.jobs[at];
        free_nodes(job);
        end_stay(job, live_[at], live_[at].work);
        account(job, live_[at], true);
        change_demand(-static_cast<double>(job.requested_gpus));
        offers_.erase(job.id);
        snapshot_.jobs.erase(snapshot_.jobs.begin() + static_cast<std::ptrdiff_t>(at));
        live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
        --running_;
    }
}

/// What is left of the job's work, and of its time limit. With the work hidden the limit stands for
/// it: a limit for a run as requested, so in proportion for other GPUs.
void Simulation::say_what_is_left(JobState& job, const Live& live) const {
    set_work_left(job, live.said);
    const bool runs = job.phase == JobPhase::running;
    if (!options_.work_unknown) {
        if (runs) job.time_limit_s = std::max(live.limit_s - (snapshot_.time_s - job.start_s), 1.0);
        return;
    }
    const Offer& asked = profile(live).offers[workload_.jobs[live.job].asked];
    job.time_limit_s =
        job.remaining_iterations * (runs ? *job.current : asked).estimate.iteration_s;
    job.remaining_iterations = 0;
}

/// Brings what the policy may know up to this moment. The truth stays hidden: the work left is what
/// the user said.
void Simulation::update_jobs() {
    for (std::size_t i = 0; i < snapshot_.jobs.size(); ++i) {
        JobState& job = snapshot_.jobs[i];
        Live& live = live_[i];
        job.age_s = snapshot_.time_s - job.submit_s;
        if (job.phase != JobPhase::running) continue;
        job.done_iterations = done_now(job, live);
        say_what_is_left(job, live);
        job.attained_gpu_s = live.gpu_s + static_cast<double>(job.current->grid.gpus()) *
                                              (snapshot_.time_s - job.start_s);
    }
}

Result<std::uint32_t> Simulation::check_offer(const Action& action, const JobState& job,
                                              const Live& live) const {
    const auto& offers = profile(live).offers;
    const Grid& grid = action.offer.grid;
    if ((action.kind == ActionKind::start) != (job.phase == JobPhase::pending)) {
        return broken(action, "does not fit its state");
    }
    if (static_cast<std::int64_t>(action.nodes.size()) != grid.nodes || grid.gpus_per_node < 1) {
        return broken(action, "names a wrong number of nodes");
    }
    for (std::uint32_t i = 0; i < offers.size(); ++i) {
        if (offers[i].grid.gpu_type == grid.gpu_type && offers[i].grid.gpus() == grid.gpus())
            return i;
    }
    return broken(action, fmt::format("is no offer: {}", short_form(grid)));
}

Status Simulation::take_nodes(const Action& action) {
    NodeIndex previous = 0;
    for (std::size_t i = 0; i < action.nodes.size(); ++i) {
        const NodeIndex n = action.nodes[i];
        if (n >= snapshot_.nodes.size() || (i > 0 && n <= previous)) {
            return broken(action, "names nodes out of order or range");
        }
        NodeState& node = snapshot_.nodes[n];
        if (node.gpu_type != action.offer.grid.gpu_type ||
            node.free_gpus < action.offer.grid.gpus_per_node) {
            return broken(action, fmt::format("takes more than is free on {}", node.name));
        }
        node.free_gpus -= action.offer.grid.gpus_per_node;
        previous = n;
    }
    return Done{};
}

void Simulation::give_up(std::size_t at) {
    JobState& job = snapshot_.jobs[at];
    free_nodes(job);
    end_stay(job, live_[at], done_now(job, live_[at]));
    job.phase = JobPhase::pending;
    job.time_limit_s = live_[at].limit_s;
    job.current.reset();
    job.nodes.clear();
    job.start_s = 0;
    --running_;
}

Status Simulation::begin(std::size_t at, const Action& action) {
    JobState& job = snapshot_.jobs[at];
    Live& live = live_[at];
    const Result<std::uint32_t> offer = check_offer(action, job, live);
    if (!offer) return offer.error();
    if (const Status status = take_nodes(action); !status) return status;
    job.phase = JobPhase::running;
    job.current = action.offer;
    job.nodes = action.nodes;
    job.start_s = snapshot_.time_s;
    job.patient_until_s = 0;
    ++job.restarts;
    ++metrics_.restarts;
    ++running_;
    live.offer = *offer;
    live.progress_s = snapshot_.time_s + policy_options_.restart.seconds(action.offer.grid.gpus());
    live.iteration_s = profile(live).offers[*offer].estimate.iteration_s *
                       Workload::time_factor(options_.errors, live.job, *offer);
    completions_.push(
        {live.progress_s + (live.work - live.done) * live.iteration_s, job.id, live.version});
    return Done{};
}

/// Everything that is given back is free before anything is taken.
Status Simulation::apply(const Decision& decision) {
    std::vector<std::pair<std::size_t, const Action*>> begins;
    for (const Action& action : decision.actions) {
        const bool moves = action.kind == ActionKind::resize || action.kind == ActionKind::preempt;
        if (!moves && action.kind != ActionKind::start) continue;
        const std::size_t at = find(action.job);
        if (at == snapshot_.jobs.size()) return broken(action, "names a job that is not there");
        JobState& job = snapshot_.jobs[at];
        if (moves && job.phase != JobPhase::running)
            return broken(action, "does not fit its state");
        if (moves && !job.elastic) return broken(action, "changes a job that is not elastic");
        const bool stays = action.kind == ActionKind::resize && job.nodes == action.nodes &&
                           job.current->grid.gpus_per_node == action.offer.grid.gpus_per_node;
        if (stays) continue;  // the same GPU set: nothing changes
        if (action.kind != ActionKind::preempt) begins.emplace_back(at, &action);
        if (moves) give_up(at);
    }
    for (const auto& [at, action] : begins) {
        Action as_start = *action;
        as_start.kind = ActionKind::start;
        if (const Status status = begin(at, as_start); !status) return status;
    }
    return Done{};
}

Status Simulation::check_stuck(const Decision& decision) {
    const bool idle = running_ == 0 && decision.actions.empty() && !snapshot_.jobs.empty() &&
                      arrived_ == workload_.jobs.size();
    idle_rounds_ = idle ? idle_rounds_ + 1 : 0;
    if (idle_rounds_ < (options_.only_events ? 1 : stuck_rounds)) return Done{};
    return environment_error(fmt::format(
        "at {:.0f} s the policy leaves {} jobs waiting on an idle "
        "cluster for {} rounds, the first is job {}",
        snapshot_.time_s, snapshot_.jobs.size(), idle_rounds_, snapshot_.jobs.front().id));
}

Status Simulation::decide() {
    update_jobs();
    ++snapshot_.generation;
    ++metrics_.decisions;
    policy_options_.window_s = std::min(snapshot_.time_s - last_decision_s_, snapshot_.time_s);
    last_decision_s_ = snapshot_.time_s;
    due_s_ = never;
    const Clock::time_point start = Clock::now();
    const Decision decision = decide_(snapshot_, offers_, policy_options_);
    decision_ms_.push_back(ms_since(start));
    if (options_.watch) options_.watch(snapshot_, offers_, policy_options_, decision);
    for (JobState& job : snapshot_.jobs)
        if (const auto at = decision.patience.find(job.id);
            at != decision.patience.end() && job.patient_until_s == 0)
            job.patient_until_s = at->second;
    if (const Status status = apply(decision); !status) return status;
    return check_stuck(decision);
}

void Simulation::finish_speeds(Metrics& m) {
    std::sort(speed_changes_.begin(), speed_changes_.end());
    double speed = 0;
    for (std::size_t i = 0; i < speed_changes_.size(); ++i) {
        speed += speed_changes_[i].second;
        const bool last = i + 1 == speed_changes_.size();
        if (last || speed_changes_[i + 1].first > speed_changes_[i].first) {
            m.throughput_peak = std::max(m.throughput_peak, speed);
        }
    }
    if (m.makespan_s <= 0) return;
    m.throughput_mean = samples_ / m.makespan_s;
    m.normalized_throughput_mean = normalized_s_ / m.makespan_s;
    m.gpu_utilization = held_gpu_s_ / (static_cast<double>(workload_.gpus()) * m.makespan_s);
}

Metrics Simulation::finish(std::string_view name) {
    Metrics& m = metrics_;
    for (std::size_t i = 0; i < snapshot_.jobs.size(); ++i) {
        JobState& job = snapshot_.jobs[i];
        if (job.phase == JobPhase::running) end_stay(job, live_[i], done_now(job, live_[i]));
        account(job, live_[i], false);
    }
    m.policy = name;
    m.jobs = static_cast<std::int64_t>(arrived_);
    m.dropped = workload_.dropped;
    m.makespan_s = snapshot_.time_s;
    std::vector<double> jct, queuing, unfairness;
    for (const JobOutcome& outcome : m.outcomes) {
        jct.push_back(outcome.jct_s);
        queuing.push_back(outcome.queuing_s);
        if (outcome.finished) unfairness.push_back(outcome.unfairness);
    }
    m.jct_s = spread_of(std::move(jct));
    m.queuing_s = spread_of(std::move(queuing));
    m.finish_time_fairness = spread_of(std::move(unfairness));
    finish_speeds(m);
    std::sort(decision_ms_.begin(), decision_ms_.end());
    m.decision_ms_p50 = percentile(decision_ms_, 0.5);
    m.decision_ms_p95 = percentile(decision_ms_, 0.95);
    m.decision_ms_max = percentile(decision_ms_, 1);
    return std::move(metrics_);
}

Result<Metrics> Simulation::run(std::string_view name) {
    const Clock::time_point start = Clock::now();
    while (arrived_ < workload_.jobs.size() || !snapshot_.jobs.empty()) {
        drop_stale_completions();
        const double at_s = next_event_s();
        if (at_s >= options_.max_time_s) {
            snapshot_.time_s = options_.max_time_s;
            break;
        }
        snapshot_.time_s = at_s;
        complete();
        arrive();
        if (snapshot_.jobs.empty()) continue;
        if (at_s < last_decision_s_ + options_.min_gap_s) {
            due_s_ = last_decision_s_ + options_.min_gap_s;
            continue;
        }
        if (const Status status = decide(); !status) return status.error();
        if (options_.progress) {
            options_.progress(at_s, arrived_ - snapshot_.jobs.size(), workload_.jobs.size());
        }
        if (metrics_.decisions >= options_.max_decisions) break;
    }
    Metrics metrics = finish(name);
    metrics.wall_s = ms_since(start) / 1000;
    return metrics;
}

}  // namespace

Result<Metrics> simulate(const Workload& workload, std::string_view policy_name,
                         const PolicyFunction& decide, const SimulationOptions& options) {
    return Simulation(workload, decide, options).run(policy_name);
}

}  // namespace arena::sim
