// SPDX-License-Identifier: GPL-2.0-or-later
// See long_queue.h.
#include "policy/arena/long_queue.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

#include "policy/problem.h"

namespace arena {
namespace {

/// The same but for their work and age.
struct Group {
    const JobState* first;
    bool starves;
    std::size_t most;  ///< that can be of use in a round
    std::vector<std::uint32_t> members;
};
using Groups = std::map<const std::vector<Offer>*, std::vector<Group>>;

/// One more than can run at once, so that whoever finds no place stands for all behind.
std::size_t most_at_once(const Snapshot& snapshot, const JobState& job,
                         const std::vector<Offer>& offers) {
    std::int64_t gpus = 0, smallest = INT64_MAX;
    for (const NodeState& node : snapshot.nodes) gpus += node.total_gpus;
    for (const Offer& offer : offers)
        if (offer.grid.gpus() >= job.min_gpus) smallest = std::min(smallest, offer.grid.gpus());
    return static_cast<std::size_t>(gpus / std::max<std::int64_t>(1, smallest)) + 1;
}

bool is_elastic_queue(const Snapshot& snapshot) {
    std::size_t waiting = 0;
    for (const JobState& job : snapshot.jobs) {
        if (job.phase != JobPhase::pending || job.ordinary) continue;
        if (!job.elastic) return false;
        ++waiting;
    }
    return waiting > long_queue;
}

Groups group(const Snapshot& snapshot, const Offers& offers,
             const std::function<bool(const JobState&)>& starves) {
    Groups groups;
    auto at = offers.begin();
    for (std::uint32_t i = 0; i < snapshot.jobs.size(); ++i) {
        const JobState& job = snapshot.jobs[i];
        if (job.phase != JobPhase::pending || job.ordinary || job.overrun ||
            !(job.remaining_iterations > 0))
            continue;
        at = find_from(offers, at, job.id);
        if (at == offers.end()) continue;
        const std::vector<Offer>& list = at->second;
        std::vector<Group>& known = groups[&list];
        const bool late = starves(job);
        auto own = std::find_if(known.begin(), known.end(), [&](const Group& other) {
            return other.starves == late && other.first->priority == job.priority &&
                   are_of_a_kind(*other.first, job);
        });
        if (own == known.end())
            own = known.insert(own, {&job, late, most_at_once(snapshot, job, list), {}});
        own->members.push_back(i);
    }
    return groups;
}

/// Takes the first of an order off the list of those to leave out.
template <typename Key>
void keep_first(const Group& group, Key key, std::vector<bool>& left_out) {
    std::vector<std::uint32_t> order = group.members;
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(group.most);
    std::nth_element(order.begin(), end, order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
    std::for_each(order.begin(), end, [&](std::uint32_t i) { left_out[i] = false; });
}

}  // namespace

std::vector<bool> out_of_reach(const Snapshot& snapshot, const Offers& offers,
                               const std::function<bool(const JobState&)>& starves) {
    if (!is_elastic_queue(snapshot)) return {};
    std::vector<bool> left_out(snapshot.jobs.size());
    for (const auto& [list, groups] : group(snapshot, offers, starves))
        for (const Group& group : groups) {
            if (group.members.size() <= group.most) continue;
            for (const std::uint32_t i : group.members) left_out[i] = true;
            const std::vector<JobState>& jobs = snapshot.jobs;
            keep_first(
                group, [&](std::uint32_t i) { return std::tuple(jobs[i].remaining_iterations, i); },
                left_out);
            if (group.starves)
                keep_first(
                    group, [&](std::uint32_t i) { return std::tuple(-jobs[i].age_s, i); },
                    left_out);
        }
    return left_out;
}

}  // namespace arena
