// SPDX-License-Identifier: GPL-2.0-or-later
// See two_phase.h.
#include "policy/aryl/two_phase.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "policy/knapsack.h"

namespace arena {
namespace {

/// Items times states of the largest exact answer, and what is looked at where there is none.
constexpr std::int64_t exact_steps = std::int64_t{1} << 32, other_steps = 20'000'000;

/// More than all jobs could take is no use.
std::int64_t usable(std::span<const Growth> jobs, std::int64_t capacity_gpus) {
    std::int64_t all = 0;
    for (const Growth& job : jobs) {
        std::int64_t most = 0;
        for (const Growth::Step& step : job.steps) most = std::max(most, step.gpus);
        all += most;
    }
    return std::clamp<std::int64_t>(capacity_gpus, 0, all);
}

std::int64_t common_divisor(std::span<const Growth> jobs) {
    std::int64_t divisor = 0;
    for (const Growth& job : jobs)
        for (const Growth::Step& step : job.steps) divisor = std::gcd(divisor, step.gpus);
    return std::max<std::int64_t>(1, divisor);
}

}  // namespace

std::vector<std::uint32_t> shortest_first(std::span<const BaseDemand> demands) {
    std::vector<std::uint32_t> order(demands.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::tie(demands[a].run_s, demands[a].job) <
               std::tie(demands[b].run_s, demands[b].job);
    });
    return order;
}

std::vector<std::uint32_t> admit(std::span<const BaseDemand> demands, std::int64_t capacity_gpus) {
    std::vector<std::uint32_t> admitted;
    for (const std::uint32_t i : shortest_first(demands)) {
        if (demands[i].gpus > capacity_gpus) continue;
        capacity_gpus -= demands[i].gpus;
        admitted.push_back(i);
    }
    return admitted;
}

Shares share_out(std::span<const Growth> jobs, std::int64_t capacity_gpus) {
    const std::int64_t unit = common_divisor(jobs);
    Knapsack knapsack({usable(jobs, capacity_gpus) / unit});
    for (const Growth& job : jobs) {
        knapsack.add_group();
        for (const Growth::Step& step : job.steps)
            knapsack.add({.type = 0,
                          .gpus = static_cast<std::int32_t>(step.gpus / unit),
                          .value = step.saved_s});
    }
    Shares shares;
    shares.chosen = knapsack.solve(other_steps, exact_steps);
    shares.saved_s = knapsack.value(shares.chosen);
    shares.is_exact = knapsack.solved_exactly();
    shares.bound_s = shares.is_exact ? shares.saved_s : knapsack.bound();
    return shares;
}

}  // namespace arena
