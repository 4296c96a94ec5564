// SPDX-License-Identifier: GPL-2.0-or-later
// Which lent servers go back, so that the fewest jobs are preempted (Aryl's server reclaim): a
// minimum union of sets, NP-hard. Exact where all choices can be looked at; else greedy by the
// share of a job that each server holds (recomputed after each pick), and a local search from it;
// beside the answer a lower bound says how good it is. Pure; knows no Slurm and no time.
#pragma once

#include <cstdint>
#include <vector>

namespace arena {

using ServerIndex = std::uint32_t;

/// What counts after the preempted jobs.
enum class ReclaimSecond {
    collateral,  ///< GPUs of preempted jobs on servers that stay, then restarts
    restarts,    ///< jobs that are preempted or scaled in, then collateral
};

/// Servers 0..servers-1, and the jobs on them. A job is preempted when more of its base servers
/// are returned than it can spare; else it is scaled in when any of its servers is.
struct ReclaimProblem {
    struct Part {
        ServerIndex server = 0;
        std::int32_t gpus = 0;  ///< of the job, there; >= 0
        bool is_base = true;    ///< else flexible: the job goes on without
    };
    struct Job {
        double weight = 1;                   ///< of its preemption, >= 0
        std::int32_t spare = 0;              ///< base servers that it can do without, >= 0
        std::uint32_t first = 0, count = 0;  ///< into parts
    };

    std::size_t servers = 0;
    std::size_t wanted = 0;  ///< servers to return, <= servers
    ReclaimSecond second = ReclaimSecond::collateral;
    std::vector<Job> jobs;
    std::vector<Part> parts;

    void add_job(double weight = 1, std::int32_t spare = 0) {
        jobs.push_back({weight, spare, static_cast<std::uint32_t>(parts.size()), 0});
    }
    /// Of the job added last. A server that it has already is one part, base if either is.
    void add_part(Part part);
};

struct ReclaimCost {
    double weight = 0;  ///< of the preempted jobs
    std::int64_t preemptions = 0, scaled_in = 0;
    std::int64_t collateral_gpus = 0;
    bool operator==(const ReclaimCost&) const = default;
};

/// Of returning exactly these servers, counted anew. O(parts).
ReclaimCost cost_of(const ReclaimProblem&, const std::vector<ServerIndex>& returned);
/// Whether the job is preempted, by job.
std::vector<bool> preempted_by(const ReclaimProblem&, const std::vector<ServerIndex>& returned);

struct ReclaimOptions {
    std::int64_t exact_choices = 2'000'000;  ///< most choices of servers that are all looked at
    /// Budget of the local search in exchanges of two servers, for 500 servers; for fewer, down to
    /// 150, in proportion more.
    std::int64_t exchanges = 8'000;
    int bound_rounds = 120;  ///< of the lower bound; 0: none
    std::uint64_t seed = 1;
};

struct ReclaimAnswer {
    std::vector<ServerIndex> returned;  ///< ascending, exactly `wanted`
    ReclaimCost cost;
    /// No choice preempts jobs of less weight; whole where all weights are.
    double least_weight = 0;
    bool is_exact = false;  ///< no choice is better, in none of the keys of the order
    /// (weight - least_weight) / weight; 0: proven to preempt the least.
    [[nodiscard]] double gap() const {
        return cost.weight > 0 ? (cost.weight - least_weight) / cost.weight : 0;
    }
};

/// Deterministic. Never preempts more than greedy_by_share(). 500 servers with 2,000 jobs take tens
/// of milliseconds; memory is linear in the parts.
ReclaimAnswer choose_servers(const ReclaimProblem&, const ReclaimOptions& = {});

/// The published rule: again and again the server of the least sum of weight / base servers over
/// the jobs that it holds a base part of, ties by the lowest index; its jobs are then gone
/// everywhere. In the order of the picks.
std::vector<ServerIndex> greedy_by_share(const ReclaimProblem&);

/// Weight that every choice preempts at least: the Lagrangian of the linear relaxation, a job's
/// weight dealt out to its base servers so that the cheapest servers together cost most. Jobs that
/// can spare servers are left out. Whole where all weights are.
double least_preempted_weight(const ReclaimProblem&, int rounds, double known);

}  // namespace arena
