// SPDX-License-Identifier: GPL-2.0-or-later
// See steps.h.
#include "policy/order/steps.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace arena {
namespace {

double tier_of(double priority) { return std::floor(priority / tier_size); }

/// Of an ordinary job, in the queue of the others: behind all that Slurm has before it.
std::size_t place_among(const std::vector<JobState>& jobs, const std::vector<std::uint32_t>& queue,
                        const JobState& ordinary) {
    const auto key = [](const JobState& job) {
        return std::tuple(-job.priority, job.submit_s, job.id);
    };
    std::size_t place = 0;
    for (std::size_t i = 0; i < queue.size(); ++i)
        if (key(jobs[queue[i]]) < key(ordinary)) place = i + 1;
    return place;
}

/// In Slurm's own order, each in the step of who stands before it.
void add_ordinary(const std::vector<JobState>& jobs, std::vector<std::uint32_t> ordinary,
                  SlurmOrder& order, std::vector<std::uint32_t>& queue) {
    std::stable_sort(ordinary.begin(), ordinary.end(), [&](std::uint32_t a, std::uint32_t b) {
        return jobs[a].priority > jobs[b].priority;
    });
    for (const std::uint32_t j : ordinary) {
        const std::size_t place = place_among(jobs, queue, jobs[j]);
        order.step[j] = place == 0 ? 0 : order.step[queue[place - 1]];
        queue.insert(queue.begin() + static_cast<std::ptrdiff_t>(place), j);
    }
}

}  // namespace

SlurmOrder order_of(const Snapshot& snapshot, double share) {
    const auto& jobs = snapshot.jobs;
    SlurmOrder order;
    order.step.resize(jobs.size());
    order.place.resize(jobs.size());
    std::vector<std::uint32_t> queue, ordinary;
    for (std::uint32_t j = 0; j < jobs.size(); ++j)
        (jobs[j].ordinary ? ordinary : queue).push_back(j);
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
    add_ordinary(jobs, std::move(ordinary), order, queue);
    for (std::uint32_t i = 0; i < queue.size(); ++i) order.place[queue[i]] = i;
    return order;
}

}  // namespace arena
