// SPDX-License-Identifier: GPL-2.0-or-later
// Whom a reclaim hits, on the states that a simulation meets: our choice of servers against Slurm's
// own preemption (22.05, preempt/partition_prio with select/cons_tres, with and without
// preempt_reorder_count) and against random servers. Run by tests/bench/loans.
//   loan-victims CLUSTER TRACE THROUGHPUTS CURVE ELASTIC_SHARE SEED [ideal]
// With `ideal` nothing is simulated: the mean JCT were there GPUs without end, each job started as
// it comes, an elastic one with the fastest of its offers, another with what it asked for.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>

#include "baselines/registry.h"
#include "sim/random.h"
#include "sim/simulator.h"

using namespace arena;
using namespace arena::sim;

namespace {

std::string read(const char* path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

template <typename T>
T need(Result<T> result) {
    if (!result) {
        fmt::print(stderr, "loan-victims: {}\n", result.error().message());
        std::exit(3);
    }
    return std::move(result).value();
}

/// An inference job that needs `wanted` whole servers, and what Slurm preempts for it. Candidates
/// by the fewest nodes (all of one partition tier); they are taken away one after the other until
/// enough servers are empty, and the first empty ones are taken. Those that stand on them are
/// preempted, wholly: Slurm knows no base and no flexible part. Each reordering puts the last one
/// first and the others by how many of the chosen servers they hold.
class SlurmOrder {
  public:
    explicit SlurmOrder(const ReclaimProblem& problem)
        : problem_(problem), order_(problem.jobs.size()) {
        std::iota(order_.begin(), order_.end(), std::uint32_t{0});
        std::stable_sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
            return problem.jobs[a].count < problem.jobs[b].count;
        });
    }
    std::int64_t preempted(int reorder_count) {
        pass();
        for (int i = 0; i < reorder_count; ++i) {
            reorder();
            pass();
        }
        std::int64_t victims = 0;
        for (std::size_t i = 0; i < removed_; ++i) victims += overlap(order_[i]) > 0 ? 1 : 0;
        return victims;
    }

  private:
    void pass() {
        std::vector<std::int32_t> jobs_on(problem_.servers, 0);
        for (const auto& part : problem_.parts) ++jobs_on[part.server];
        auto empty = static_cast<std::size_t>(std::count(jobs_on.begin(), jobs_on.end(), 0));
        for (removed_ = 0; empty < problem_.wanted && removed_ < order_.size(); ++removed_) {
            const ReclaimProblem::Job& job = problem_.jobs[order_[removed_]];
            for (std::uint32_t p = job.first; p < job.first + job.count; ++p)
                empty += --jobs_on[problem_.parts[p].server] == 0 ? 1 : 0;
        }
        chosen_.assign(problem_.servers, false);
        std::size_t left = problem_.wanted;
        for (std::size_t s = 0; s < problem_.servers && left > 0; ++s) {
            if (jobs_on[s] != 0) continue;
            chosen_[s] = true;
            --left;
        }
    }
    void reorder() {
        if (removed_ == 0) return;
        std::vector<std::int32_t> usable(problem_.jobs.size(), 0);
        for (std::size_t i = 0; i < removed_; ++i) usable[order_[i]] = overlap(order_[i]);
        usable[order_[removed_ - 1]] = 9999;
        std::stable_sort(order_.begin(), order_.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return usable[a] > usable[b]; });
    }
    [[nodiscard]] std::int32_t overlap(std::uint32_t j) const {
        const ReclaimProblem::Job& job = problem_.jobs[j];
        std::int32_t servers = 0;
        for (std::uint32_t p = job.first; p < job.first + job.count; ++p)
            servers += chosen_[problem_.parts[p].server] ? 1 : 0;
        return servers;
    }

    const ReclaimProblem& problem_;
    std::vector<std::uint32_t> order_;
    std::vector<bool> chosen_;
    std::size_t removed_ = 0;
};

struct Totals {
    std::int64_t reclaims = 0, servers = 0, ours = 0, restarts = 0, let_end = 0, least = 0;
    std::int64_t slurm = 0, slurm_reorder = 0, slurm_reorder_10 = 0;
    double random = 0, random_restarts = 0;
};

void add_random(const ReclaimProblem& problem, Random& random, Totals& totals) {
    constexpr int tries = 5;
    std::vector<ServerIndex> servers(problem.servers);
    std::iota(servers.begin(), servers.end(), ServerIndex{0});
    for (int i = 0; i < tries; ++i) {
        for (std::size_t s = 0; s < problem.wanted; ++s)
            std::swap(servers[s], servers[s + random.below(servers.size() - s)]);
        const ReclaimCost cost = cost_of(
            problem,
            {servers.begin(), servers.begin() + static_cast<std::ptrdiff_t>(problem.wanted)});
        totals.random += static_cast<double>(cost.preemptions) / tries;
        totals.random_restarts += static_cast<double>(cost.preemptions + cost.scaled_in) / tries;
    }
}

double ideal_jct_s(const Workload& workload, double elastic_share, std::uint64_t seed) {
    const RestartCost restart;
    double sum_s = 0;
    for (std::uint32_t i = 0; i < workload.jobs.size(); ++i) {
        const SimJob& job = workload.jobs[i];
        const auto& offers = workload.profiles[job.profile].offers;
        const auto jct_s = [&](const Offer& offer) {
            return restart.seconds(offer.grid.gpus()) + job.iterations * offer.estimate.iteration_s;
        };
        double least_s = jct_s(offers[job.asked]);
        if (Workload::is_elastic(elastic_share, seed, i))
            for (const Offer& offer : offers) least_s = std::min(least_s, jct_s(offer));
        sum_s += least_s;
    }
    return sum_s / static_cast<double>(workload.jobs.size());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 7 && (argc != 8 || std::string_view(argv[7]) != "ideal")) {
        fmt::print(stderr,
                   "usage: loan-victims CLUSTER TRACE THROUGHPUTS CURVE ELASTIC_SHARE SEED "
                   "[ideal]\n");
        return 2;
    }
    WorkloadOptions binding;
    binding.trace_name = argv[2];
    const Workload workload = need(bind_workload(
        need(parse_cluster(read(argv[1]), argv[1])), need(parse_trace(read(argv[2]), argv[2])),
        need(parse_throughputs(read(argv[3]), argv[3])), binding));
    SimulationOptions options;
    options.elastic_share = std::atof(argv[5]);
    options.errors.seed = std::strtoull(argv[6], nullptr, 10);
    if (argc == 8) {
        fmt::print("{{\"jct_s\":{:.3f}}}\n",
                   ideal_jct_s(workload, options.elastic_share, options.errors.seed));
        return 0;
    }
    Totals t;
    Random random(7);
    options.loans.emplace();
    options.loans->curve = need(parse_inference_curve(read(argv[4]), argv[4]));
    options.loans->watch = [&](const ReclaimProblem& problem, const ReclaimAnswer& answer) {
        ++t.reclaims;
        t.servers += static_cast<std::int64_t>(problem.wanted);
        t.least += static_cast<std::int64_t>(answer.least_weight);
        t.slurm += SlurmOrder(problem).preempted(0);
        t.slurm_reorder += SlurmOrder(problem).preempted(1);
        t.slurm_reorder_10 += SlurmOrder(problem).preempted(10);
        add_random(problem, random, t);
    };
    const Metrics metrics = need(simulate(workload, "aryl", find_policy("aryl")->decide, options));
    t.ours = metrics.loans->preemptions;
    t.restarts = t.ours + metrics.loans->scaled_in;
    t.let_end = metrics.loans->let_end - metrics.loans->overstayed;
    fmt::print(
        "{{\"reclaims\":{},\"servers\":{},\"ours\":{},\"restarts\":{},\"let_end\":{},\"least\":{},"
        "\"slurm\":{},\"slurm_reorder\":{},\"slurm_reorder_10\":{},\"random\":{:.1f},"
        "\"random_restarts\":{:.1f}}}\n",
        t.reclaims, t.servers, t.ours, t.restarts, t.let_end, t.least, t.slurm, t.slurm_reorder,
        t.slurm_reorder_10, t.random, t.random_restarts);
    return 0;
}
