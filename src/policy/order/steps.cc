// SPDX-License-Identifier: GPL-2.0-or-later
// See steps.h.
#include "policy/order/steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace arena {
namespace {

double tier_of(double priority) { return std::floor(priority / tier_size); }

}  // namespace

SlurmOrder order_of(const Snapshot& snapshot, double share) {
    const auto& jobs = snapshot.jobs;
    SlurmOrder order;
    order.step.resize(jobs.size());
    order.place.resize(jobs.size());
    std::vector<std::uint32_t> queue(jobs.size());
    std::iota(queue.begin(), queue.end(), 0U);
    std::stable_sort(queue.begin(), queue.end(), [&](std::uint32_t a, std::uint32_t b) {
        return jobs[a].priority > jobs[b].priority;
    });
    double first = 0, most_in_tier = 0, tier = 0;
    for (std::size_t i = 0; i < queue.size(); ++i) {
        const double priority = jobs[queue[i]].priority;
        const bool other_tier = i == 0 || tier_of(priority) != tier;
        if (other_tier) {
            tier = tier_of(priority);
            most_in_tier = std::max(priority - tier * tier_size, 0.0);
        }
        if (other_tier || first - priority > share * most_in_tier) {
            order.steps += i == 0 ? 0 : 1;
            first = priority;
        }
        order.step[queue[i]] = order.steps;
    }
    if (!queue.empty()) ++order.steps;
    std::sort(queue.begin(), queue.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::tie(order.step[a], jobs[a].submit_s, a) <
               std::tie(order.step[b], jobs[b].submit_s, b);
    });
    for (std::uint32_t i = 0; i < queue.size(); ++i) order.place[queue[i]] = i;
    return order;
}

}  // namespace arena
