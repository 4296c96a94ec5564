// SPDX-License-Identifier: GPL-2.0-or-later
// See reclaim.h.
#include "policy/loans/reclaim.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "policy/loans/reclaim_search.h"

namespace arena {
namespace {

/// C(n, k), or `most` + 1 where it is more.
std::int64_t choices(std::size_t n, std::size_t k, std::int64_t most) {
    double count = 1;
    k = std::min(k, n - k);
    for (std::size_t i = 1; i <= k; ++i) {
        count = count * static_cast<double>(n - k + i) / static_cast<double>(i);
        if (count > static_cast<double>(most)) return most + 1;
    }
    return std::llround(count);
}

/// Servers that are returned, by index.
std::vector<bool> marks(const ReclaimProblem& problem, const std::vector<ServerIndex>& returned) {
    std::vector<bool> is_returned(problem.servers);
    for (const ServerIndex s : returned) is_returned[s] = true;
    return is_returned;
}

struct Losses {
    std::int32_t base = 0, any = 0;
    std::int64_t gpus_kept = 0;
};

Losses losses_of(const ReclaimProblem& problem, const ReclaimProblem::Job& job,
                 const std::vector<bool>& is_returned) {
    Losses losses;
    for (std::uint32_t p = job.first; p < job.first + job.count; ++p) {
        const ReclaimProblem::Part& part = problem.parts[p];
        if (!is_returned[part.server]) {
            losses.gpus_kept += part.gpus;
            continue;
        }
        ++losses.any;
        losses.base += part.is_base ? 1 : 0;
    }
    return losses;
}

/// On which no job is: as many as are wanted, or fewer where there are fewer.
std::vector<ServerIndex> empty_servers(const ReclaimProblem& problem) {
    std::vector<bool> is_held(problem.servers);
    for (const ReclaimProblem::Part& part : problem.parts) is_held[part.server] = true;
    std::vector<ServerIndex> empty;
    for (ServerIndex s = 0; s < problem.servers && empty.size() < problem.wanted; ++s)
        if (!is_held[s]) empty.push_back(s);
    return empty;
}

}  // namespace

void ReclaimProblem::add_part(Part part) {
    Job& job = jobs.back();
    for (std::uint32_t p = job.first; p < job.first + job.count; ++p) {
        if (parts[p].server != part.server) continue;
        parts[p].gpus += part.gpus;
        parts[p].is_base = parts[p].is_base || part.is_base;
        return;
    }
    parts.push_back(part);
    ++job.count;
}

ReclaimCost cost_of(const ReclaimProblem& problem, const std::vector<ServerIndex>& returned) {
    const std::vector<bool> is_returned = marks(problem, returned);
    ReclaimCost cost;
    for (const ReclaimProblem::Job& job : problem.jobs) {
        const Losses losses = losses_of(problem, job, is_returned);
        if (losses.base > job.spare) {
            cost.weight += job.weight;
            ++cost.preemptions;
            cost.collateral_gpus += losses.gpus_kept;
        } else if (losses.any > 0) {
            ++cost.scaled_in;
        }
    }
    return cost;
}

std::vector<bool> preempted_by(const ReclaimProblem& problem,
                               const std::vector<ServerIndex>& returned) {
    const std::vector<bool> is_returned = marks(problem, returned);
    std::vector<bool> preempted;
    for (const ReclaimProblem::Job& job : problem.jobs)
        preempted.push_back(losses_of(problem, job, is_returned).base > job.spare);
    return preempted;
}

ReclaimAnswer choose_servers(const ReclaimProblem& problem, const ReclaimOptions& options) {
    ReclaimAnswer answer;
    answer.returned = empty_servers(problem);
    answer.is_exact = answer.returned.size() == problem.wanted;
    if (answer.is_exact) return answer;
    const std::vector<ServerIndex> greedy = greedy_by_share(problem);
    answer.is_exact =
        choices(problem.servers, problem.wanted, options.exact_choices) <= options.exact_choices;
    answer.returned = answer.is_exact ? search_all_servers(problem, greedy)
                                      : search_servers(problem, greedy, options);
    std::sort(answer.returned.begin(), answer.returned.end());
    answer.cost = cost_of(problem, answer.returned);
    answer.least_weight =
        answer.is_exact ? answer.cost.weight
                        : least_preempted_weight(problem, options.bound_rounds, answer.cost.weight);
    return answer;
}

std::vector<ServerIndex> greedy_by_share(const ReclaimProblem& problem) {
    std::vector<double> cost(problem.servers, 0);
    std::vector<std::vector<std::uint32_t>> jobs_on(problem.servers);
    std::vector<double> share(problem.jobs.size(), 0);
    for (std::uint32_t j = 0; j < problem.jobs.size(); ++j) {
        const ReclaimProblem::Job& job = problem.jobs[j];
        const auto parts = std::span(problem.parts).subspan(job.first, job.count);
        const auto bases = std::count_if(parts.begin(), parts.end(),
                                         [](const auto& part) { return part.is_base; });
        if (bases > 0) share[j] = job.weight / static_cast<double>(bases);
        for (const ReclaimProblem::Part& part : parts) {
            if (!part.is_base) continue;
            cost[part.server] += share[j];
            jobs_on[part.server].push_back(j);
        }
    }
    std::vector<ServerIndex> picks;
    std::vector<bool> picked(problem.servers), gone(problem.jobs.size());
    const double rounding = 1e-9;
    while (picks.size() < problem.wanted) {
        ServerIndex best = 0;
        double least = -1;
        for (ServerIndex s = 0; s < problem.servers; ++s) {
            if (picked[s] || (least >= 0 && cost[s] >= least - rounding)) continue;
            best = s;
            least = std::max(cost[s], 0.0);
        }
        picks.push_back(best);
        picked[best] = true;
        for (const std::uint32_t j : jobs_on[best]) {
            if (gone[j]) continue;
            gone[j] = true;
            const ReclaimProblem::Job& job = problem.jobs[j];
            for (std::uint32_t p = job.first; p < job.first + job.count; ++p)
                if (problem.parts[p].is_base) cost[problem.parts[p].server] -= share[j];
        }
    }
    return picks;
}

}  // namespace arena
