// SPDX-License-Identifier: GPL-2.0-or-later
// What a simulation adds up: see simulation.h.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/statistics.h"
#include "sim/simulation.h"

namespace arena::sim {

void Simulation::change_demand(double gpus) {
    demand_gpu_s_ += demand_gpus_ * (snapshot_.time_s - demand_at_s_);
    demand_at_s_ = snapshot_.time_s;
    demand_gpus_ += gpus;
}

/// By account, as parts of those of all accounts with jobs. One that is not named has a share of 1.
std::vector<double> Simulation::account_shares(const Workload& workload) {
    std::vector<double> shares(workload.accounts.size());
    for (const SimJob& job : workload.jobs) {
        const auto named = workload.shares.find(workload.accounts[job.account]);
        shares[job.account] = named == workload.shares.end() ? 1 : named->second;
    }
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share /= all;
    return shares;
}

/// 2^(-usage / share), both as parts of what all accounts with jobs have: Slurm's
/// priority/multifactor with FAIR_TREE off (its page "Multifactor Priority Plugin", fair-share
/// factor), undamped, without decay. O(jobs present).
void Simulation::rank_by_shares() {
    std::vector<double> usage = ended_gpu_s_;
    for (std::size_t i = 0; i < live_.size(); ++i) {
        const JobState& job = snapshot_.jobs[i];
        double& held = usage[workload_.jobs[live_[i].job].account];
        held += live_[i].gpu_s;
        if (job.phase == JobPhase::running)
            held +=
                static_cast<double>(job.current->grid.gpus()) * (snapshot_.time_s - job.start_s);
    }
    const double all = std::max(std::accumulate(usage.begin(), usage.end(), 0.0), 1.0);
    for (std::size_t i = 0; i < live_.size(); ++i) {
        const std::uint32_t account = workload_.jobs[live_[i].job].account;
        snapshot_.jobs[i].priority = std::exp2(-usage[account] / all / account_shares_[account]);
    }
}

/// How long the job would take with what it asked for, slowed as much as the jobs present over its
/// life asked for more than there is: an equal part for everybody.
double Simulation::fair_jct_s(const JobState& job, const Live& live) const {
    const Profile& p = profile(live);
    const double asked_s = p.offers[workload_.jobs[live.job].asked].estimate.iteration_s;
    const bool recorded = workload_.jobs[live.job].recorded;  // with its start-up
    const double alone_s =
        live.work * asked_s + (recorded ? 0 : policy_options_.restart.seconds(job.requested_gpus));
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
    ended_gpu_s_[workload_.jobs[live.job].account] += live.gpu_s;
}

/// What was done at the present pace.
void Simulation::settle(Live& live, double done) {
    const Profile& p = profile(live);
    const double now_s = snapshot_.time_s, iterations = done - live.done;
    const double asked_s = p.offers[workload_.jobs[live.job].asked].estimate.iteration_s;
    samples_ += iterations * static_cast<double>(p.batch);
    normalized_s_ += iterations * asked_s;
    if (now_s > live.progress_s) {
        const double speed = static_cast<double>(p.batch) / live.iteration_s;
        speed_changes_.emplace_back(live.progress_s, speed);
        speed_changes_.emplace_back(now_s, -speed);
    }
    const double lost_s = std::max(0.0, now_s - live.progress_s) * loss_rate(live);
    live.slow.lost_s += lost_s;
    live.slow.done += iterations;
    slow_sums_.lost_gpu_s += lost_s * static_cast<double>(live.slow.job.devices.size());
    live.done = done;
    ++live.version;
}

/// Closes a stay: what was held and what was done in it.
void Simulation::end_stay(const JobState& job, Live& live, double done) {
    const double now_s = snapshot_.time_s;
    const auto gpus = static_cast<double>(job.current->grid.gpus());
    held_gpu_s_ += gpus * (now_s - job.start_s);
    live.gpu_s += gpus * (now_s - job.start_s);
    live.held_s += now_s - job.start_s;
    settle(live, done);
    if (!options_.keep_stays) return;
    const bool changed = live.progress_s != live.first_s && live.slow.done > 0;
    metrics_.stays.push_back({live.job,
                              live.offer,
                              job.start_s,
                              live.first_s,
                              now_s,
                              changed ? (now_s - live.first_s) / live.slow.done : live.iteration_s,
                              {job.nodes.begin(), job.nodes.end()}});
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
    m.promises = promises_.counts();
    finish_speeds(m);
    finish_slow(m);
    if (power_) m.power = power_->until(snapshot_.time_s);
    if (lending_) m.loans = lending_->finish(snapshot_, held_gpu_s_);
    std::sort(decision_ms_.begin(), decision_ms_.end());
    m.decision_ms_p50 = percentile(decision_ms_, 0.5);
    m.decision_ms_p95 = percentile(decision_ms_, 0.95);
    m.decision_ms_max = percentile(decision_ms_, 1);
    return std::move(metrics_);
}

}  // namespace arena::sim
