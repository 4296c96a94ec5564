// SPDX-License-Identifier: GPL-2.0-or-later
// See reservation.h.
#include "policy/reservation.h"

#include <fmt/format.h>

#include <tuple>

#include "policy/places.h"

namespace arena {
namespace {

bool could_hold(const Problem& problem, const Task& task, const Offer& offer) {
    const Snapshot& snapshot = problem.snapshot();
    const std::int32_t type = problem.type_of(offer.grid.gpu_type);
    return any_place(*task.job, [&](const Place& place, std::uint32_t) {
        std::int64_t missing = offer.grid.nodes;
        if (!allows(place, *task.job, missing, offer.grid.gpus_per_node)) return false;
        for (const NodeIndex index : snapshot.node_sets[place.node_set]) {
            const bool fits = snapshot.nodes[index].up && problem.type_of_node(index) == type &&
                              snapshot.nodes[index].total_gpus >= offer.grid.gpus_per_node;
            if (fits && --missing == 0) return true;
        }
        return false;
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

std::vector<std::size_t> waiting_in_order(const Problem& problem, const std::vector<bool>& given) {
    std::vector<std::size_t> queue;
    for (std::size_t i = 0; i < given.size(); ++i)
        if (!given[i] && !problem.tasks()[i].runs()) queue.push_back(i);
    std::sort(queue.begin(), queue.end(), [&](std::size_t a, std::size_t b) {
        const auto key = [&](std::size_t i) {
            const JobState& job = *problem.tasks()[i].job;
            return std::make_tuple(-job.priority, job.submit_s, job.id);
        };
        return key(a) < key(b);
    });
    return queue;
}

}  // namespace

std::vector<Action> reservations(const Problem& problem, std::span<const double> values,
                                 std::vector<bool>& given) {
    std::vector<Action> actions;
    if (problem.options().reserve_depth <= 0) return actions;
    std::vector<std::int64_t> left(problem.types(), problem.options().reserve_depth);
    for (const std::size_t i : waiting_in_order(problem, given)) {
        if (std::all_of(left.begin(), left.end(), [](std::int64_t n) { return n <= 0; })) break;
        const Task& task = problem.tasks()[i];
        const Offer* offer = shape_for(problem, task, values);
        if (offer == nullptr) continue;
        if (left[static_cast<std::size_t>(problem.type_of(offer->grid.gpu_type))]-- <= 0) continue;
        actions.push_back(
            {ActionKind::reshape_and_wait, task.job->id, *offer, {}, "", waits_for(*offer)});
        given[i] = true;
    }
    return actions;
}

std::string waiting_words(const Problem& problem, const Task& task,
                          std::span<const double> values) {
    const Offer* offer = shape_for(problem, task, values);
    return offer ? waits_for(*offer) : nowhere_words;
}

}  // namespace arena
