// SPDX-License-Identifier: GPL-2.0-or-later
// Making room: see displacement.h.
#include "policy/arena/displacement.h"

#include <algorithm>
#include <tuple>

#include "policy/places.h"

namespace arena {

Displacement::Displacement(const Problem& problem, std::span<const double> values,
                           std::span<const double> moved)
    : problem_(problem), values_(values), moved_(moved) {}

/// Most rounds need no room: done on the first call.
void Displacement::index_nodes() {
    if (!on_node_.empty()) return;
    on_node_.resize(problem_.snapshot().nodes.size());
    nodes_of_type_.resize(problem_.types());
    for (NodeIndex n = 0; n < on_node_.size(); ++n) {
        const std::int32_t type = problem_.type_of_node(n);
        if (type >= 0) nodes_of_type_[static_cast<std::size_t>(type)].push_back(n);
    }
    for (std::size_t i = 0; i < problem_.tasks().size(); ++i) {
        if (!problem_.tasks()[i].runs()) continue;
        for (const NodeIndex n : problem_.tasks()[i].job->nodes) on_node_[n].push_back(i);
    }
}

/// The tasks of least value per GPU that have to leave the node; false when not even all of them
/// suffice.
bool Displacement::cost_of_node(const Task& task, NodeIndex node, std::int64_t per_node,
                                const std::vector<bool>& keeps, NodeCost& out) const {
    out = {0, node, {}};
    std::vector<std::pair<double, std::size_t>> order;
    for (const std::size_t v : on_node_[node]) {
        const Task& victim = problem_.tasks()[v];
        if (keeps[v])
            order.emplace_back(current_value(v) / problem_.choice(victim.current).gpus, v);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [density, v] : order) {
        if (packing_->fits_on(task, node, per_node)) break;
        packing_->release_current(problem_.tasks()[v]);
        out.loss += current_value(v);
        out.victims.push_back(v);
    }
    const bool fits = packing_->fits_on(task, node, per_node);
    for (const std::size_t v : out.victims) packing_->take_current(problem_.tasks()[v]);
    return fits;
}

/// Of nodes in the order of their cost the first that a job may have together; none where no so
/// many are.
void Displacement::keep_allowed(std::vector<NodeCost>& costs, std::size_t wanted,
                                const Place& place, const Choice& choice,
                                const Offer& offer) const {
    if (problem_.may_lie_anywhere(place, choice, offer)) return costs.resize(wanted);
    const Fabric& fabric = problem_.fabric();
    std::vector<NodeIndex> nodes;
    for (const NodeCost& cost : costs) nodes.push_back(cost.node);
    std::vector<Fabric::Share> shares;
    costs.resize(fabric.first_within(nodes, static_cast<std::int64_t>(wanted),
                                     problem_.widest(choice, offer), offer.segment, shares));
    Fabric::Taking taking(fabric, shares);
    std::erase_if(costs, [&](const NodeCost& cost) { return !taking.take(cost.node); });
}

/// Of the nodes of the place that cost least to clear; nobody when there are not enough.
std::vector<std::size_t> Displacement::victims_for(const Task& task, const Choice& choice,
                                                   const Place& place, const Offer& offer,
                                                   std::int64_t per_node,
                                                   const std::vector<bool>& keeps) const {
    const std::int64_t nodes = choice.gpus / per_node;
    if (!allows(place, *task.job, nodes, per_node)) return {};
    std::vector<NodeCost> costs;
    NodeCost cost;
    for (const NodeIndex n : nodes_of_type_[static_cast<std::size_t>(choice.type)]) {
        if (packing_->is_in_set(place.node_set, n) && cost_of_node(task, n, per_node, keeps, cost))
            costs.push_back(cost);
    }
    const auto wanted = static_cast<std::size_t>(nodes);
    std::vector<std::size_t> victims;
    if (costs.size() < wanted) return victims;
    std::sort(costs.begin(), costs.end(), [](const NodeCost& a, const NodeCost& b) {
        return std::tie(a.loss, a.node) < std::tie(b.loss, b.node);
    });
    keep_allowed(costs, wanted, place, choice, offer);
    for (const NodeCost& node : costs)
        victims.insert(victims.end(), node.victims.begin(), node.victims.end());
    std::sort(victims.begin(), victims.end());
    victims.erase(std::unique(victims.begin(), victims.end()), victims.end());
    return victims;
}

/// What a victim is worth after it was cleared away: where it stood if that is free still, else its
/// best choice that finds nodes, else nothing.
double Displacement::relocate(std::size_t v, std::vector<Leaver>& leavers) {
    const Task& task = problem_.tasks()[v];
    if (packing_->can_take_current(task)) {
        packing_->take_current(task);
        return current_value(v);
    }
    Leaver& leaver = leavers.emplace_back(Leaver{v, {}});
    if (!elsewhere_) return 0;
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t c = 0; c < task.choice_count; ++c) {
        const std::size_t at = task.first_choice + c;
        const double value =
            static_cast<std::int32_t>(at) == task.current ? moved_[v] : values_[at];
        if (value > 0) order.emplace_back(-value, c);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [value, c] : order) {
        if (packing_->place(task, problem_.choices(task)[c], leaver.placement)) return -value;
    }
    leaver.placement = {};
    return 0;
}

bool Displacement::try_layout(const Newcomer& newcomer, const Place& place, const Offer& offer,
                              std::int64_t per_node, double least_gain, Placement& out,
                              std::vector<Leaver>& leavers) {
    const Task& task = problem_.tasks()[newcomer.task];
    std::vector<std::size_t> victims =
        victims_for(task, newcomer.choice, place, offer, per_node, newcomer.keeps);
    if (victims.empty()) return false;
    for (const std::size_t v : victims) packing_->release_current(problem_.tasks()[v]);
    const bool placed = packing_->place_as(task, newcomer.choice, offer, per_node, out);
    std::sort(victims.begin(), victims.end(), [&](std::size_t a, std::size_t b) {
        return std::make_tuple(-current_value(a), a) < std::make_tuple(-current_value(b), b);
    });
    double gain = 0;
    leavers.clear();
    for (const std::size_t v : victims) gain += relocate(v, leavers) - current_value(v);
    if (placed && gain > least_gain) return true;
    for (const Leaver& leaver : leavers) {
        if (!leaver.placement.nodes.empty())
            packing_->remove(problem_.tasks()[leaver.task], leaver.placement);
    }
    if (placed) packing_->remove(task, out);
    for (const Leaver& leaver : leavers) packing_->take_current(problem_.tasks()[leaver.task]);
    leavers.clear();
    return false;
}

bool Displacement::displace(const Newcomer& newcomer, Packing& packing, Placement& out,
                            std::vector<Leaver>& leavers) {
    index_nodes();
    packing_ = &packing;
    elsewhere_ = newcomer.elsewhere;
    const Task& task = problem_.tasks()[newcomer.task];
    const auto at = static_cast<std::size_t>(&newcomer.choice - problem_.choices(task).data()) +
                    task.first_choice;
    const double least_gain = newcomer.alternative - values_[at];
    if (least_gain >= 0) return false;
    return packing.any_layout(newcomer.choice, [&](const Offer& offer, std::int64_t per_node) {
        if (offer.grid.is_uneven()) return false;  // nobody is moved for pieces
        return any_place(*task.job, [&](const Place& place, std::uint32_t) {
            return try_layout(newcomer, place, offer, per_node, least_gain, out, leavers);
        });
    });
}

}  // namespace arena
