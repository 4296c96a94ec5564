// SPDX-License-Identifier: GPL-2.0-or-later
// Random rounds for policy arena, and its objective written again from arena_policy.h: shared by
// the properties, the comparison with exhaustive search and its bench. No code of the policy is
// used.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "policy/policy.h"

namespace arena::test {

struct Round {
    Snapshot snapshot;
    Offers offers;
    PolicyOptions options;
};

/// A number in [min, max].
using Pick = std::function<std::int64_t(std::int64_t min, std::int64_t max)>;

struct RoundSize {
    std::int64_t most_nodes = 6, most_node_gpus = 8, most_jobs = 9;
    std::int64_t most_gpus = INT64_MAX;  ///< of the cluster
    bool only_gpus = false;  ///< CPUs and memory are plenty, all jobs elastic, nobody starves
};

inline constexpr double week_s = 7 * 86400;
inline const std::vector<std::string> gpu_type_names{"a40", "a100"};

inline const NodeState* node_at(const Snapshot& s, NodeIndex n) {
    return n < s.nodes.size() ? &s.nodes[n] : nullptr;
}

/// Times that fall with the GPUs, less so for jobs that scale badly, with some noise.
inline std::vector<Offer> random_offers(const Pick& pick) {
    std::vector<Offer> offers;
    const double base_s = std::exp(static_cast<double>(pick(0, 400)) / 100);
    const double power = static_cast<double>(pick(30, 100)) / 100;
    for (const std::string& type : gpu_type_names) {
        const double speed = type == "a40" ? 1 : static_cast<double>(pick(60, 300)) / 100;
        for (const std::int64_t gpus : {1, 2, 3, 4, 6, 8}) {
            if (pick(0, 2) == 0) continue;
            const double iteration_s =
                base_s / speed / std::pow(gpus, power) * static_cast<double>(pick(95, 110)) / 100;
            for (const std::int64_t per_node : {8, 6, 4, 3, 2, 1}) {
                if (gpus % per_node != 0 || pick(0, 1) == 0) continue;
                Offer& offer = offers.emplace_back();
                offer.grid = {type, gpus / per_node, per_node, 1};
                offer.estimate.iteration_s =
                    iteration_s * (1 + 0.01 * static_cast<double>(gpus / per_node - 1));
            }
        }
    }
    return offers;
}

/// Takes the offer's GPUs on nodes of the job's set; false when they are not free.
inline bool occupy(Snapshot& s, JobState& job, const Offer& offer) {
    std::vector<NodeIndex> nodes;
    const std::int64_t g = offer.grid.gpus_per_node;
    for (const NodeIndex n : s.node_sets[job.node_set]) {
        const NodeState& node = s.nodes[n];
        const bool fits = node.gpu_type == offer.grid.gpu_type && node.free_gpus >= g &&
                          node.free_cpus >= g * job.cpus_per_gpu &&
                          node.free_memory_mb >= g * job.memory_mb_per_gpu;
        if (fits && static_cast<std::int64_t>(nodes.size()) < offer.grid.nodes) nodes.push_back(n);
    }
    if (static_cast<std::int64_t>(nodes.size()) < offer.grid.nodes) return false;
    for (const NodeIndex n : nodes)
        give_to_node(s.nodes, n, -g, -g * job.cpus_per_gpu, -g * job.memory_mb_per_gpu);
    job.nodes = nodes;
    return true;
}

inline JobState random_job(const Pick& pick, JobId id, const RoundSize& size) {
    JobState job;
    job.id = id;
    job.priority = static_cast<double>(pick(0, 3));
    job.age_s = static_cast<double>(pick(0, 400000));
    if (!size.only_gpus && pick(0, 5) == 0)
        job.age_s = week_s * static_cast<double>(pick(101, 1000)) / 100;
    if (pick(0, 3) == 0) job.gpu_types = {gpu_type_names[static_cast<std::size_t>(pick(0, 1))]};
    job.min_gpus = pick(0, 3) == 0 ? pick(1, 4) : 1;
    job.max_gpus = pick(0, 3) == 0 ? job.min_gpus + pick(0, 5) : INT64_MAX;
    job.cpus_per_gpu = size.only_gpus ? 0 : pick(0, 4);
    job.memory_mb_per_gpu = size.only_gpus ? 0 : pick(0, 4000);
    job.node_set = static_cast<std::uint32_t>(pick(0, 3) == 0 ? pick(1, 2) : 0);
    job.remaining_iterations = std::exp(static_cast<double>(pick(400, 1100)) / 100);
    job.elastic = size.only_gpus || pick(0, 5) != 0;
    job.restarts = pick(0, 12);
    return job;
}

/// Every other job runs already, where there is room. No job is kept to an appointed time: the time
/// is a multiple of every period.
inline Round random_round(const Pick& pick, const RoundSize& size) {
    Round r;
    std::int64_t left = size.most_gpus;
    for (std::int64_t n = pick(1, size.most_nodes); n > 0 && left > 0; --n) {
        NodeState node;
        node.name = "n" + std::to_string(n);
        node.gpu_type = gpu_type_names[static_cast<std::size_t>(pick(0, 1))];
        node.total_gpus = node.free_gpus = pick(1, std::min(left, size.most_node_gpus));
        node.free_cpus = size.only_gpus ? 1000 : pick(0, 40);
        node.free_memory_mb = size.only_gpus ? 1000000 : pick(0, 40000);
        left -= node.total_gpus;
        r.snapshot.nodes.push_back(node);
        if (left == 0 || pick(0, 3) != 0) continue;
        node.gpu_type = gpu_type_names[node.gpu_type == gpu_type_names[0] ? 1 : 0];
        node.total_gpus = node.free_gpus = pick(1, std::min(left, size.most_node_gpus));
        node.same_node = true;
        left -= node.total_gpus;
        r.snapshot.nodes.push_back(node);
    }
    r.snapshot.node_sets.resize(3);
    for (NodeIndex n = 0; n < r.snapshot.nodes.size(); ++n) {
        r.snapshot.node_sets[0].push_back(n);
        for (const std::size_t set : {1U, 2U}) {
            auto& nodes = r.snapshot.node_sets[set];
            const bool with_last = !nodes.empty() && nodes.back() + 1 == n;
            if (r.snapshot.nodes[n].same_node ? with_last : pick(0, 1) == 0) nodes.push_back(n);
        }
    }
    const auto jobs = static_cast<JobId>(pick(1, size.most_jobs));
    for (JobId id = 1; id <= jobs; ++id) {
        JobState job = random_job(pick, id, size);
        auto& offers = r.offers[id] = random_offers(pick);
        if (pick(0, 1) == 0 && !offers.empty()) {
            const Offer& offer = offers[static_cast<std::size_t>(pick(0, std::ssize(offers) - 1))];
            const bool allowed =
                (job.gpu_types.empty() || job.gpu_types[0] == offer.grid.gpu_type) &&
                offer.grid.gpus() >= job.min_gpus && offer.grid.gpus() <= job.max_gpus;
            if (allowed && occupy(r.snapshot, job, offer)) {
                job.phase = JobPhase::running;
                job.current = offer;
                job.restarts = std::max<std::int64_t>(1, job.restarts);
                job.start_s = -static_cast<double>(pick(1, 100000));
                job.attained_gpu_s = -job.start_s * static_cast<double>(offer.grid.gpus());
            }
        }
        r.snapshot.jobs.push_back(std::move(job));
    }
    r.options.any_layout = pick(0, 1) == 0;
    r.options.reserve_depth = pick(0, 2);
    return r;
}

/// Whether the policy may move the job.
inline bool is_movable(const JobState& job) {
    return job.phase == JobPhase::running && job.elastic;
}

/// Fastest layout of the (type, count) that the job is offered; 0 when it is not, or may not have
/// it.
inline double time_of(const Round& r, const JobState& job, const std::string& type,
                      std::int64_t gpus) {
    double least = 0;
    if (gpus < job.min_gpus || gpus > job.max_gpus) return 0;
    if (!job.gpu_types.empty() && std::count(job.gpu_types.begin(), job.gpu_types.end(), type) == 0)
        return 0;
    for (const Offer& offer : r.offers.at(job.id)) {
        if (offer.grid.gpu_type != type || offer.grid.gpus() != gpus) continue;
        if (least == 0 || offer.estimate.iteration_s < least) least = offer.estimate.iteration_s;
    }
    return least;
}

/// Fastest of all offers that the job may have, whether there are nodes for it or not.
inline double fastest_of(const Round& r, const JobState& job) {
    double least = 0;
    for (const Offer& offer : r.offers.at(job.id)) {
        const double time_s = time_of(r, job, offer.grid.gpu_type, offer.grid.gpus());
        if (time_s > 0 && (least == 0 || time_s < least)) least = time_s;
    }
    return least;
}

/// What objective jct says that GPUs are worth to a job; `stays`: on those that it has. For jobs
/// that wait no longer than a week.
inline double value_of(const Round& r, const JobState& job, const std::string& type,
                       std::int64_t gpus, bool stays) {
    const double iteration_s = time_of(r, job, type, gpus);
    if (iteration_s <= 0) return 0;
    double low = job.priority, high = job.priority, waiting = 0, all = 0;
    for (const JobState& other : r.snapshot.jobs) {
        const bool counts = other.phase == JobPhase::pending || other.elastic;
        const auto& offers = r.offers.at(other.id);
        if (!counts || offers.empty()) continue;
        low = std::min(low, other.priority);
        high = std::max(high, other.priority);
        waiting += other.phase == JobPhase::pending ? 1 : 0;
        all += 1;
    }
    const double weight = high > low ? 1 + 3 * (job.priority - low) / (high - low) : 1;
    const double change = 1.08 + 0.30 * std::min(1.0, waiting / all / 0.15);
    const double left_s = job.remaining_iterations * iteration_s,
                 least_s = job.remaining_iterations * fastest_of(r, job) + 70,
                 restart_s = r.options.restart.seconds(gpus);
    const auto worth = [&](double time_s) {
        return weight * std::pow(least_s / time_s / (std::min(least_s, 360000.0) + 7200), 1.25);
    };
    if (job.phase == JobPhase::pending) return worth(left_s + restart_s);
    const double momentum = 1.5;
    if (stays) {
        const double started_s = job.start_s + r.options.restart.seconds(job.current->grid.gpus());
        const double rest_s = std::max(0.0, started_s - r.snapshot.time_s);
        return momentum * change * worth(left_s + rest_s);
    }
    const auto again = static_cast<double>(std::max<std::int64_t>(0, job.restarts - 2));
    const double stay_charge = 1 + 25 * restart_s * again / (7200 + job.age_s);
    const double by_type = type == job.current->grid.gpu_type ? 1 : change;
    return momentum / by_type / stay_charge * worth(left_s + 25 * restart_s);
}

/// Sum of the values that a decision leaves. A long running job that takes idle GPUs counts as if
/// it had stayed: growth has a rule of its own.
inline double objective_of(const Round& r, const Decision& d) {
    std::map<JobId, const Action*> actions;
    for (const Action& a : d.actions) {
        if (a.kind != ActionKind::reshape_and_wait) actions[a.job] = &a;
    }
    double sum = 0;
    for (const JobState& job : r.snapshot.jobs) {
        const auto at = actions.find(job.id);
        const Action* action = at == actions.end() ? nullptr : at->second;
        const bool grows = action != nullptr && action->reason == "idle GPUs finish it sooner";
        if (is_movable(job) && (action == nullptr || grows)) {
            sum += value_of(r, job, job.current->grid.gpu_type, job.current->grid.gpus(), true);
        } else if (action != nullptr && action->kind != ActionKind::preempt) {
            sum += value_of(r, job, action->offer.grid.gpu_type, action->offer.grid.gpus(), false);
        }
    }
    return sum;
}

/// The greatest sum of values over all ways to give every job one placement or none: dynamic
/// programming over what is free on each node. For rounds where GPUs are all that is scarce
/// (RoundSize::only_gpus).
class Optimum {
  public:
    explicit Optimum(const Round& round) : round_(round) {
        for (const NodeState& node : round.snapshot.nodes) free_.push_back(node.free_gpus);
        for (const JobState& job : round.snapshot.jobs) {
            if (job.phase == JobPhase::running && !job.elastic) continue;
            jobs_.push_back(&job);
            for (const NodeIndex n : job.nodes) free_[n] += job.current->grid.gpus_per_node;
        }
        seen_.resize(jobs_.size());
    }
    double value() { return best(0); }

  private:
    double best(std::size_t at) {
        if (at == jobs_.size()) return 0;
        if (const auto known = seen_[at].find(free_); known != seen_[at].end())
            return known->second;
        const JobState& job = *jobs_[at];
        double most = best(at + 1);
        if (job.current) most = std::max(most, staying(at));
        for (const std::string& type : gpu_type_names) {
            for (std::int64_t gpus = 1; gpus <= 8; ++gpus) {
                const double value = value_of(round_, job, type, gpus, false);
                if (value <= 0) continue;
                for (std::int64_t per_node = 1; per_node <= gpus; ++per_node) {
                    if (gpus % per_node == 0 && is_layout(job, type, gpus, per_node)) {
                        most =
                            std::max(most, placed(at, type, gpus / per_node, per_node, 0, value));
                    }
                }
            }
        }
        return seen_[at][free_] = most;
    }
    double staying(std::size_t at) {
        const JobState& job = *jobs_[at];
        const Grid& grid = job.current->grid;
        for (const NodeIndex n : job.nodes) {
            if (free_[n] < grid.gpus_per_node) return 0;
        }
        for (const NodeIndex n : job.nodes) free_[n] -= grid.gpus_per_node;
        const double sum = value_of(round_, job, grid.gpu_type, grid.gpus(), true) + best(at + 1);
        for (const NodeIndex n : job.nodes) free_[n] += grid.gpus_per_node;
        return sum;
    }
    /// Over all sets of `nodes` nodes from `from` on.
    double placed(std::size_t at, const std::string& type, std::int64_t nodes,
                  std::int64_t per_node, std::size_t from, double value) {
        if (nodes == 0) return value + best(at + 1);
        double most = 0;
        const auto& set = round_.snapshot.node_sets[jobs_[at]->node_set];
        for (std::size_t i = from; i < set.size(); ++i) {
            const NodeIndex n = set[i];
            if (round_.snapshot.nodes[n].gpu_type != type || free_[n] < per_node) continue;
            free_[n] -= per_node;
            most = std::max(most, placed(at, type, nodes - 1, per_node, i + 1, value));
            free_[n] += per_node;
        }
        return most;
    }
    /// Layouts up to a twentieth slower than the fastest may stand for it; all, where any may.
    [[nodiscard]] bool is_layout(const JobState& job, const std::string& type, std::int64_t gpus,
                                 std::int64_t per_node) const {
        if (round_.options.any_layout) return true;
        const double fastest = time_of(round_, job, type, gpus);
        for (const Offer& o : round_.offers.at(job.id)) {
            if (o.grid.gpu_type == type && o.grid.gpus() == gpus &&
                o.grid.gpus_per_node == per_node && o.estimate.iteration_s <= 1.05 * fastest) {
                return true;
            }
        }
        return false;
    }

    const Round& round_;
    std::vector<const JobState*> jobs_;
    std::vector<std::int64_t> free_;
    std::vector<std::map<std::vector<std::int64_t>, double>> seen_;
};

/// The same round with one more node of nothing but idle GPUs, which most node sets have, too.
inline Round with_idle_node(const Pick& pick, Round r) {
    NodeState node;
    node.name = "more";
    node.gpu_type = gpu_type_names[static_cast<std::size_t>(pick(0, 1))];
    node.total_gpus = node.free_gpus = pick(1, 8);
    node.free_cpus = 1000;
    node.free_memory_mb = 1000000;
    for (auto& set : r.snapshot.node_sets) {
        if (pick(0, 2) != 0) set.push_back(static_cast<NodeIndex>(r.snapshot.nodes.size()));
    }
    r.snapshot.nodes.push_back(node);
    return r;
}

/// decide() against the optimum of its objective, and against itself with an idle node more.
struct Quality {
    std::vector<double> of_optimum, with_node;  ///< ratios, ascending
};
inline Quality quality_of(const Pick& pick, long rounds, PolicyFunction decide) {
    Quality out;
    for (long i = 0; i < rounds; ++i) {
        const Round r = random_round(pick, {8, 8, 6, 8, true}), more = with_idle_node(pick, r);
        const double best = Optimum(r).value();
        if (best <= 0) continue;
        const double got = objective_of(r, decide(r.snapshot, r.offers, r.options));
        out.of_optimum.push_back(got / best);
        if (got > 0)
            out.with_node.push_back(
                objective_of(more, decide(more.snapshot, more.offers, more.options)) / got);
    }
    std::sort(out.of_optimum.begin(), out.of_optimum.end());
    std::sort(out.with_node.begin(), out.with_node.end());
    return out;
}
/// The value that so large a share of the ascending values does not exceed; and how large a share
/// is below.
inline double at_share(const std::vector<double>& sorted, double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}
inline double share_below(const std::vector<double>& sorted, double value) {
    const auto below = std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
    return static_cast<double>(below) / static_cast<double>(sorted.size());
}

}  // namespace arena::test
