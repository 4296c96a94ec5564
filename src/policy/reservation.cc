// SPDX-License-Identifier: GPL-2.0-or-later
// See reservation.h.
#include "policy/reservation.h"

#include <fmt/format.h>

#include <set>
#include <tuple>

#include "policy/places.h"

namespace arena {
namespace {

/// The first nodes of the place that could hold the offer were they empty, as many as it takes or,
/// with `all`, all of them; none where there are fewer. Nobody knows when one that is down comes
/// back.
std::vector<NodeIndex> hosts_in(const Problem& problem, const Task& task, const Offer& offer,
                                const Place& place, bool all) {
    const Snapshot& snapshot = problem.snapshot();
    const Grid& grid = offer.grid;
    const auto wanted = static_cast<std::size_t>(grid.nodes);
    const std::int32_t type = problem.type_of(grid.gpu_type);
    std::vector<NodeIndex> hosts;
    if (place.node_set >= snapshot.node_sets.size() ||
        !allows(place, *task.job, grid.nodes, grid.gpus_per_node))
        return hosts;
    for (const NodeIndex index : snapshot.node_sets[place.node_set]) {
        const NodeState& node = snapshot.nodes[index];
        if (!node.up || node.returning_s > 0 || problem.type_of_node(index) != type ||
            node.total_gpus < grid.gpus_per_node)
            continue;
        hosts.push_back(index);
        if (!all && hosts.size() == wanted) break;
    }
    if (hosts.size() < wanted) hosts.clear();
    return hosts;
}

bool could_hold(const Problem& problem, const Task& task, const Offer& offer) {
    return any_place(*task.job, [&](const Place& place, std::uint32_t) {
        return !hosts_in(problem, task, offer, place, false).empty();
    });
}

/// The fastest layout of the most valued choice that could stand on the task's nodes; nullptr: none
/// could.
const Offer* shape_for(const Problem& problem, const Task& task, std::span<const double> values) {
    std::vector<std::pair<double, const Choice*>> order;
    std::size_t at = task.first_choice;
    for (const Choice& choice : problem.choices(task)) order.emplace_back(-values[at++], &choice);
    std::sort(order.begin(), order.end());
    for (const auto& [value, choice] : order) {
        for (const Offer* offer : problem.offers(*choice))
            if (could_hold(problem, task, *offer)) return offer;
    }
    return nullptr;
}

std::string waits_for(const Offer& offer) {
    return fmt::format("waits for {}: others make more of the GPUs now", short_form(offer.grid));
}

}  // namespace

std::vector<NodeIndex> hosts_of(const Problem& problem, const Task& task, const Offer& offer) {
    std::vector<NodeIndex> hosts;
    (void)any_place(*task.job, [&](const Place& place, std::uint32_t) {
        const auto here = hosts_in(problem, task, offer, place, true);
        hosts.insert(hosts.end(), here.begin(), here.end());
        return false;
    });
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    return hosts;
}

std::vector<Action> reservations(const Problem& problem, std::span<const double> values,
                                 std::vector<bool>& given) {
    std::vector<Action> actions;
    if (problem.options().reserve_depth <= 0) return actions;
    std::vector<std::int64_t> left(problem.types(), problem.options().reserve_depth);
    for (const std::size_t i : waiting_in_order(problem)) {
        if (given[i]) continue;
        if (std::all_of(left.begin(), left.end(), [](std::int64_t n) { return n <= 0; })) break;
        const Task& task = problem.tasks()[i];
        const Offer* offer = shape_for(problem, task, values);
        if (offer == nullptr) continue;
        if (left[static_cast<std::size_t>(problem.type_of(offer->grid.gpu_type))]-- <= 0) continue;
        actions.push_back({.kind = ActionKind::reshape_and_wait,
                           .job = task.job->id,
                           .offer = *offer,
                           .reason = waits_for(*offer)});
        given[i] = true;
    }
    return actions;
}

void say_what_is_impossible(const Problem& problem, Decision& decision) {
    std::set<JobId> known;
    for (const Task& task : problem.tasks()) known.insert(task.job->id);
    for (const JobState& job : problem.snapshot().jobs) {
        if (job.phase == JobPhase::pending && !known.contains(job.id))
            decision.waiting.emplace(job.id, nowhere_words);
    }
}

std::string waiting_words(const Problem& problem, const Task& task,
                          std::span<const double> values) {
    const Offer* offer = shape_for(problem, task, values);
    return offer ? waits_for(*offer) : nowhere_words;
}

}  // namespace arena
