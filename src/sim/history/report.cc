// SPDX-License-Identifier: GPL-2.0-or-later
// A recorded month in numbers: see report.h.
#include "sim/history/report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

namespace arena::sim {
namespace {

const Offer& asked_of(const Workload& workload, const SimJob& job) {
    return workload.profiles[job.profile].offers[job.asked];
}

double run_s_of(const Workload& workload, const SimJob& job) {
    return job.iterations * asked_of(workload, job).estimate.iteration_s;
}

/// GPUs that jobs asked for from their submission to their end, integrated over time.
class Demand {
  public:
    explicit Demand(const Workload& workload) {
        for (const SimJob& job : workload.jobs) {
            const auto gpus = static_cast<double>(asked_of(workload, job).grid.gpus());
            changes_.emplace_back(job.submit_s, gpus);
            changes_.emplace_back(job.started_s + run_s_of(workload, job), -gpus);
        }
        std::sort(changes_.begin(), changes_.end());
        double demand = 0, sum = 0, at_s = 0;
        for (const auto& [time_s, gpus] : changes_) {
            sum += demand * (time_s - at_s);
            demand += gpus;
            at_s = time_s;
            sums_.push_back(sum);
        }
    }
    /// Mean from one change to another.
    [[nodiscard]] double mean(double from_s, double to_s) const {
        return to_s > from_s ? (until(to_s) - until(from_s)) / (to_s - from_s) : 0;
    }

  private:
    [[nodiscard]] double until(double time_s) const {
        const auto at = std::lower_bound(changes_.begin(), changes_.end(),
                                         std::pair(time_s, -std::numeric_limits<double>::max()));
        return sums_[static_cast<std::size_t>(at - changes_.begin())];
    }
    std::vector<std::pair<double, double>> changes_;
    std::vector<double> sums_;
};

/// Puts recorded runs on nodes, for pictures.
class Placer {
  public:
    explicit Placer(const Workload& workload) : workload_(workload), nodes_(workload.nodes) {}
    std::vector<Stay> stays();

  private:
    std::vector<NodeIndex> take(const Grid&);
    void release_until(double time_s);
    struct Held {
        double to_s;
        std::int64_t gpus;
        std::vector<NodeIndex> nodes;
        bool operator>(const Held& other) const { return to_s > other.to_s; }
    };
    const Workload& workload_;
    std::vector<NodeState> nodes_;
    std::priority_queue<Held, std::vector<Held>, std::greater<>> held_;
};

/// Empty: no place.
std::vector<NodeIndex> Placer::take(const Grid& grid) {
    std::vector<NodeIndex> fit;
    for (NodeIndex n = 0; n < nodes_.size(); ++n)
        if (nodes_[n].gpu_type == grid.gpu_type && nodes_[n].free_gpus >= grid.gpus_per_node)
            fit.push_back(n);
    if (std::ssize(fit) < grid.nodes) return {};
    std::stable_sort(fit.begin(), fit.end(), [&](NodeIndex a, NodeIndex b) {
        return nodes_[a].free_gpus < nodes_[b].free_gpus;
    });
    fit.resize(static_cast<std::size_t>(grid.nodes));
    std::sort(fit.begin(), fit.end());
    for (const NodeIndex n : fit) nodes_[n].free_gpus -= grid.gpus_per_node;
    return fit;
}

void Placer::release_until(double time_s) {
    for (; !held_.empty() && held_.top().to_s <= time_s; held_.pop())
        for (const NodeIndex n : held_.top().nodes) nodes_[n].free_gpus += held_.top().gpus;
}

std::vector<Stay> Placer::stays() {
    std::vector<std::uint32_t> order(workload_.jobs.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return workload_.jobs[a].started_s < workload_.jobs[b].started_s;
    });
    std::vector<Stay> out;
    for (const std::uint32_t i : order) {
        const SimJob& job = workload_.jobs[i];
        const Offer& asked = asked_of(workload_, job);
        release_until(job.started_s);
        std::vector<NodeIndex> nodes = take(asked.grid);
        if (nodes.empty()) continue;
        const double to_s = job.started_s + run_s_of(workload_, job);
        out.push_back({i,
                       job.asked,
                       job.started_s,
                       job.started_s,
                       to_s,
                       asked.estimate.iteration_s,
                       {nodes.begin(), nodes.end()}});
        held_.push({to_s, asked.grid.gpus_per_node, std::move(nodes)});
    }
    return out;
}

}  // namespace

Metrics metrics_as_recorded(const Workload& workload, bool keep_stays) {
    Metrics m;
    m.policy = "as it was";
    m.jobs = m.finished = m.restarts = std::ssize(workload.jobs);
    m.dropped = workload.dropped;
    const Demand demand(workload);
    const auto gpus = static_cast<double>(workload.gpus());
    std::vector<double> jct, queuing, unfairness;
    double held_gpu_s = 0, samples = 0, normalized_s = 0;
    for (const SimJob& job : workload.jobs) {
        const double run_s = run_s_of(workload, job), end_s = job.started_s + run_s;
        JobOutcome& out = m.outcomes.emplace_back();
        out.finished = true;
        out.restarts = 1;
        out.queuing_s = std::max(0.0, job.started_s - job.submit_s);
        out.jct_s = out.queuing_s + run_s;
        out.unfairness =
            out.jct_s / (run_s * std::max(1.0, demand.mean(job.submit_s, end_s) / gpus));
        jct.push_back(out.jct_s);
        queuing.push_back(out.queuing_s);
        unfairness.push_back(out.unfairness);
        held_gpu_s += run_s * static_cast<double>(asked_of(workload, job).grid.gpus());
        samples += job.iterations * static_cast<double>(workload.profiles[job.profile].batch);
        normalized_s += run_s;
        m.makespan_s = std::max(m.makespan_s, end_s);
    }
    m.jct_s = spread_of(std::move(jct));
    m.queuing_s = spread_of(std::move(queuing));
    m.finish_time_fairness = spread_of(std::move(unfairness));
    if (m.makespan_s > 0) {
        m.gpu_utilization = held_gpu_s / (gpus * m.makespan_s);
        m.throughput_mean = samples / m.makespan_s;
        m.normalized_throughput_mean = normalized_s / m.makespan_s;
    }
    if (keep_stays) m.stays = Placer(workload).stays();
    return m;
}

Sides sides_of(const Workload& workload, const Metrics& run, const Metrics& other) {
    Sides out;
    double models = 0, ordinary = 0;
    const std::size_t count = std::min(run.outcomes.size(), other.outcomes.size());
    for (std::size_t i = 0; i < count; ++i) {
        const JobOutcome& outcome = run.outcomes[i];
        const bool rigid = workload.jobs[i].rigid;
        (rigid ? ordinary : models) += 1;
        (rigid ? out.ordinary_jct_s : out.model_jct_s) += outcome.jct_s;
        if (!rigid) continue;
        out.ordinary_wait_s += outcome.queuing_s;
        out.ordinary_later += outcome.jct_s > 1.1 * other.outcomes[i].jct_s ? 1 : 0;
    }
    out.model_jct_s /= std::max(models, 1.0);
    for (double* sum : {&out.ordinary_jct_s, &out.ordinary_wait_s, &out.ordinary_later})
        *sum /= std::max(ordinary, 1.0);
    return out;
}

ReplayError replay_error(const Workload& workload, const Metrics& replay, double within_s) {
    ReplayError out;
    out.within_s = within_s;
    std::vector<double> off_s;
    std::int64_t earlier = 0, later = 0;
    const std::size_t count = std::min(workload.jobs.size(), replay.outcomes.size());
    for (std::size_t i = 0; i < count; ++i) {
        const SimJob& job = workload.jobs[i];
        if (job.started_s < 0) continue;
        const double off = job.submit_s + replay.outcomes[i].queuing_s - job.started_s;
        earlier += off < -within_s ? 1 : 0;
        later += off > within_s ? 1 : 0;
        off_s.push_back(std::abs(off));
    }
    out.jobs = std::ssize(off_s);
    const auto all = static_cast<double>(std::max<std::int64_t>(1, out.jobs));
    out.earlier = static_cast<double>(earlier) / all;
    out.later = static_cast<double>(later) / all;
    out.met = 1 - out.earlier - out.later;
    out.off_s = spread_of(std::move(off_s));
    return out;
}

}  // namespace arena::sim
