// SPDX-License-Identifier: GPL-2.0-or-later
// The event loop: see simulator.h.
#include "sim/simulator.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/count_text.h"
#include "policy/work_left.h"
#include "sim/simulation.h"

namespace arena::sim {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Idle rounds after which a policy that starts nothing on an empty cluster is called stuck.
constexpr int stuck_rounds = 100;

}  // namespace

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
    if (lending_) at_s = std::min(at_s, lending_->next_event_s(snapshot_.time_s));
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
        state.elastic =
            !job.rigid && Workload::is_elastic(options_.elastic_share, options_.errors.seed, index);
        state.ordinary = options_.ordinary && job.rigid;
        if (job.rigid) {  // on as many nodes as it had
            const std::int64_t nodes = profile.offers[job.asked].grid.nodes;
            state.places = {{.min_nodes = nodes, .max_nodes = nodes}};
        }
        state.requested_type = profile.offers[job.asked].grid.gpu_type;
        state.requested_gpus = profile.offers[job.asked].grid.gpus();
        state.account = workload_.accounts[job.account];
        offers_.emplace_hint(offers_.end(), state.id, told_of(profile));
        Live& live = live_.emplace_back();
        live.job = index;
        live.work = job.iterations * Workload::work_factor(options_.errors, index);
        hear(state, live);
        metrics_.outcomes.emplace_back();
        metrics_.elastic += state.elastic ? 1 : 0;
        change_demand(static_cast<double>(state.requested_gpus));
        live.demand_gpu_s = demand_gpu_s_;
    }
}

/// Nobody says what a job of an unknown model has to do.
bool Simulation::hides_work(const Live& live) const {
    return options_.work_unknown || workload_.jobs[live.job].rigid;
}

/// Takes what the user says of a job that comes: its work and its time limit. With the work hidden
/// the limit stands for it.
void Simulation::hear(JobState& state, Live& live) const {
    const SimJob& job = workload_.jobs[live.job];
    const double said_factor = Workload::said_factor(options_.errors, live.job);
    state.time_limit_s = job.time_limit_s * said_factor;
    if (hides_work(live)) {
        if (!job.limit_stated)
            state.time_limit_s *= Workload::limit_factor(options_.errors.seed, live.job);
        live.said = state.time_limit_s / profile(live).offers[job.asked].estimate.iteration_s;
    } else {
        live.said = job.iterations * said_factor;
        if (Workload::is_liar(options_.errors, live.job)) live.said *= Errors::lie_factor;
        if (policy_options_.order == QueueOrder::priority) believe(state, live);
        state.remaining_iterations = live.said;
    }
    live.limit_s = state.time_limit_s;
}

/// In Slurm's order steps count as far as the time limit enforces them. An honest user lets the
/// limit be shortened to what is just believed. A liar's job would end of that: it keeps the limit
/// that it needs, the trace's or 1 to 5 times its run. Time without progress is no work's.
void Simulation::believe(JobState& state, Live& live) const {
    const SimJob& job = workload_.jobs[live.job];
    const double asked_s = profile(live).offers[job.asked].estimate.iteration_s;
    const double start_up_s = policy_options_.restart.seconds(state.requested_gpus);
    double working_s = std::max(state.time_limit_s - start_up_s, asked_s);
    if (!Workload::is_liar(options_.errors, live.job)) {
        working_s = std::min(working_s, live.said * asked_s * least_belief_slack);
    } else if (!job.limit_stated) {
        working_s = live.work * asked_s * Workload::limit_factor(options_.errors.seed, live.job);
    }
    live.said = believed_iterations(live.said, asked_s, working_s, least_belief_slack);
    state.time_limit_s = start_up_s + working_s;
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
        leave_slow(live_[at]);
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
    if (!hides_work(live)) {
        // As in Slurm the limit begins when the nodes are up.
        const double ran_s = snapshot_.time_s - job.start_s - live.boot_s;
        if (runs) job.time_limit_s = std::max(live.limit_s - ran_s, 1.0);
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

Status Simulation::check_stuck(const Decision& decision) {
    const bool idle = running_ == 0 && decision.actions.empty() && !snapshot_.jobs.empty() &&
                      arrived_ == workload_.jobs.size() && next_slow_s() == never;
    idle_rounds_ = idle ? idle_rounds_ + 1 : 0;
    if (idle_rounds_ < (options_.only_events ? 1 : stuck_rounds)) return Done{};
    return environment_error(
        fmt::format("at {:.0f} s the policy leaves {} waiting on an idle "
                    "cluster for {} rounds, the first is job {}",
                    snapshot_.time_s, counted(snapshot_.jobs.size(), "job"), idle_rounds_,
                    snapshot_.jobs.front().id));
}

Status Simulation::decide() {
    update_jobs();
    if (options_.priority_by_shares) rank_by_shares();
    restrict_nodes();
    tell_boots();
    ++snapshot_.generation;
    ++metrics_.decisions;
    policy_options_.window_s = std::min(snapshot_.time_s - last_decision_s_, snapshot_.time_s);
    last_decision_s_ = snapshot_.time_s;
    due_s_ = never;
    const Clock::time_point start = Clock::now();
    promises_.give(snapshot_, offers_, policy_options_);
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

Result<Metrics> Simulation::run(std::string_view name) {
    const Clock::time_point start = Clock::now();
    while (arrived_ < workload_.jobs.size() || !snapshot_.jobs.empty()) {
        drop_stale_completions();
        const double event_s = next_event_s(), slow_s = next_slow_s();
        const double at_s = std::min(event_s, slow_s);
        if (at_s >= options_.max_time_s) {
            snapshot_.time_s = options_.max_time_s;
            break;
        }
        snapshot_.time_s = at_s;
        complete();
        arrive();
        const bool wanted = slow_ != nullptr && advance_slowdowns();
        if (slow_s < event_s && !wanted) continue;
        if (const Status status = follow_loans(); !status) return status.error();
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

Result<Metrics> simulate(const Workload& workload, std::string_view policy_name,
                         const PolicyFunction& decide, const SimulationOptions& options) {
    Simulation simulation(workload, decide, options);
    if (const Status status = simulation.begin_loans(); !status) return status.error();
    return simulation.run(policy_name);
}

}  // namespace arena::sim
