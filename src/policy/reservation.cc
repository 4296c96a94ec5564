// SPDX-License-Identifier: GPL-2.0-or-later
// See reservation.h.
#include "policy/reservation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "policy/places.h"

namespace arena {
namespace {

/// Nodes of the place that could give so many GPUs each were they empty. Nobody knows when one that
/// is down comes back.
std::vector<NodeIndex> empty_hosts(const Problem& problem, const Grid& grid, const Place& place,
                                   std::int64_t least, std::size_t most) {
    const Snapshot& snapshot = problem.snapshot();
    const std::int32_t type = problem.type_of(grid.gpu_type);
    std::vector<NodeIndex> hosts;
    if (place.node_set >= snapshot.node_sets.size()) return hosts;
    for (const NodeIndex index : snapshot.node_sets[place.node_set]) {
        const NodeState& node = snapshot.nodes[index];
        if (!node.up || node.returning_s > 0 || problem.type_of_node(index) != type ||
            node.total_gpus < least || problem.fabric().is_outside(index))
            continue;
        hosts.push_back(index);
        if (hosts.size() == most) break;
    }
    return hosts;
}

/// Whether the place allows the job so many GPUs in pieces of these nodes, as packing takes them:
/// the largest first, and below one leaf where not every set of nodes is a job's.
bool are_pieces(const Problem& problem, const Task& task, std::int64_t gpus, const Place& place,
                const std::vector<NodeIndex>& hosts) {
    const Fabric& fabric = problem.fabric();
    std::map<std::uint32_t, std::vector<std::int64_t>> of_leaf;
    for (const NodeIndex n : hosts) {
        std::int64_t piece = std::min(problem.snapshot().nodes[n].total_gpus, gpus);
        while (piece > 0 && !allows_on_node(place, *task.job, piece)) --piece;
        of_leaf[fabric.has_limits() ? fabric.leaf_of(n) : 0].push_back(piece);
    }
    return std::any_of(of_leaf.begin(), of_leaf.end(), [&](auto& leaf) {
        std::vector<std::int64_t>& pieces = leaf.second;
        std::sort(pieces.begin(), pieces.end(), std::greater<>());
        std::int64_t left = gpus, nodes = 0;
        for (; nodes < std::ssize(pieces) && left > 0; ++nodes)
            left -= pieces[static_cast<std::size_t>(nodes)];
        return left <= 0 && nodes >= place.min_nodes && nodes <= place.max_nodes;
    });
}

/// Lent ones aside.
std::vector<NodeIndex> hosts_of_pieces(const Problem& problem, const Task& task, const Grid& grid,
                                       const Place& place) {
    std::vector<NodeIndex> hosts = empty_hosts(problem, grid, place, 1, SIZE_MAX);
    std::erase_if(hosts, [&](NodeIndex n) { return !problem.snapshot().nodes[n].lent.empty(); });
    if (!are_pieces(problem, task, grid.gpus(), place, hosts)) hosts.clear();
    return hosts;
}

/// The first nodes of the place that could hold the offer were they empty, as many as it takes or,
/// with `all`, all of them; none where there are fewer.
std::vector<NodeIndex> hosts_in(const Problem& problem, const Task& task, const Grid& grid,
                                const Place& place, bool all) {
    if (grid.is_uneven()) return hosts_of_pieces(problem, task, grid, place);
    if (!allows(place, *task.job, grid.nodes, grid.gpus_per_node)) return {};
    const auto wanted = static_cast<std::size_t>(grid.nodes);
    const bool is_limited = problem.is_limited(place);
    std::vector<NodeIndex> hosts = empty_hosts(problem, grid, place, grid.gpus_per_node,
                                               all || is_limited ? SIZE_MAX : wanted);
    if (hosts.size() < wanted || (is_limited && !problem.fabric().has_room(hosts, grid.nodes)))
        hosts.clear();
    return hosts;
}

bool could_hold(const Problem& problem, const Task& task, const Grid& grid) {
    return any_place(*task.job, [&](const Place& place, std::uint32_t) {
        return !hosts_in(problem, task, grid, place, false).empty();
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
            if (!offer->grid.is_uneven() && could_hold(problem, task, offer->grid)) return offer;
    }
    return nullptr;
}

/// The fastest uneven offer that could stand there; nullptr: none could.
const Offer* pieces_for(const Problem& problem, const Task& task) {
    const Offer* best = nullptr;
    for (const Choice& choice : problem.choices(task))
        for (const Offer* offer : problem.offers(choice))
            if (offer->grid.is_uneven() &&
                (best == nullptr || offer->estimate.iteration_s < best->estimate.iteration_s) &&
                could_hold(problem, task, offer->grid))
                best = offer;
    return best;
}

/// Of the nodes, ascending, those that are kept for promised jobs, or for ordinary ones.
std::vector<NodeIndex> kept_for_others(const Task& task, const Offer& offer, const Packing& packing,
                                       std::span<const NodeIndex> nodes,
                                       std::span<const NodeIndex> slurms, double later_s) {
    const std::vector<NodeIndex> promised = packing.kept_from(task, offer, nodes, later_s);
    std::vector<NodeIndex> for_slurm, kept;
    std::ranges::set_intersection(nodes, slurms, std::back_inserter(for_slurm));
    std::ranges::set_union(promised, for_slurm, std::back_inserter(kept));
    return kept;
}

/// Nodes that Slurm must leave to others if it starts this one by itself, at any time before the
/// next decision; nothing where it would be left none, or would end late itself.
std::optional<std::vector<NodeIndex>> kept_of(const Problem& problem, const Task& task,
                                              const Offer& offer, std::span<const NodeIndex> slurms,
                                              Packing& packing) {
    if (!packing.keeps_any() && slurms.empty()) return std::vector<NodeIndex>();
    if (packing.is_late(task, offer)) return std::nullopt;
    const double later_s = problem.options().window_s;
    const std::vector<NodeIndex> hosts = hosts_of(problem, task, offer);
    std::vector<NodeIndex> kept = kept_for_others(task, offer, packing, hosts, slurms, later_s),
                           open;
    std::set_difference(hosts.begin(), hosts.end(), kept.begin(), kept.end(),
                        std::back_inserter(open));
    if (std::ssize(open) < offer.grid.nodes) return std::nullopt;
    packing.leave_open(task, offer, open, later_s);
    return kept;
}

/// Where no layout with the same number on each node finds room.
std::string_view why_not_in_pieces(const Problem& problem, const Task& task, const Choice& choice,
                                   const Packing& packing) {
    bool is_offered = false;
    for (const Choice& other : problem.choices(task)) {
        const auto offers = problem.offers(other);
        const bool is_uneven = std::any_of(offers.begin(), offers.end(), [](const Offer* offer) {
            return offer->grid.is_uneven();
        });
        if (!is_uneven || other.type != choice.type || other.gpus != choice.gpus) continue;
        if (packing.has_room(task, other))
            return "as many are free, but in pieces, with which it would end later";
        is_offered = true;
    }
    return is_offered ? "as many are free, but on more nodes than it may have"
                      : "as many are free, but in pieces: a job has the same number on each of its "
                        "nodes";
}

/// The layout finds nodes, but farther apart than the choice has it.
bool has_room_apart(const Problem& problem, const Task& task, const Choice& choice,
                    const Packing& packing) {
    if (!problem.has_spans() || packing.has_room(task, choice)) return false;
    return std::ranges::any_of(problem.choices(task), [&](const Choice& other) {
        return &other != &choice && other.type == choice.type && other.gpus == choice.gpus &&
               problem.offers(other).front() == problem.offers(choice).front() &&
               packing.has_room(task, other);
    });
}

/// Enough nodes have the GPUs, but no job may have them together.
bool is_kept_apart(const Problem& problem, const Task& task, const Choice& choice,
                   const Packing& packing) {
    if (!problem.fabric().has_limits() || packing.could_stand(task, choice)) return false;
    const auto offers = problem.offers(choice);
    return std::any_of(offers.begin(), offers.end(), [&](const Offer* offer) {
        std::int64_t nodes = 0;
        for (NodeIndex n = 0; n < problem.snapshot().nodes.size(); ++n)
            nodes += problem.type_of_node(n) == choice.type &&
                     packing.is_in_set(task.job->node_set, n) &&
                     packing.left_on(n).gpus >= offer->grid.gpus_per_node;
        return nodes >= offer->grid.nodes;
    });
}

}  // namespace

void keep_from_slurm(const Problem& problem, const Packing& packing,
                     std::span<const NodeIndex> slurms, std::span<Action> actions) {
    if (!packing.keeps_any() && slurms.empty()) return;
    for (Action& action : actions) {
        if (action.kind != ActionKind::start || action.offer.grid.is_uneven()) continue;
        const auto task = std::find_if(problem.tasks().begin(), problem.tasks().end(),
                                       [&](const Task& t) { return t.job->id == action.job; });
        std::vector<NodeIndex> others = hosts_of(problem, *task, action.offer);
        std::erase_if(others, [&](NodeIndex n) {
            return std::binary_search(action.nodes.begin(), action.nodes.end(), n);
        });
        action.kept = kept_for_others(*task, action.offer, packing, others, slurms,
                                      problem.options().window_s);
    }
}

std::string_view why_not_free(const Problem& problem, const Task& task, const Choice& choice,
                              const Packing& packing) {
    std::int64_t free = 0;
    for (NodeIndex n = 0; n < problem.snapshot().nodes.size(); ++n)
        if (problem.type_of_node(n) == choice.type && packing.is_in_set(task.job->node_set, n))
            free += packing.left_on(n).gpus;
    if (free < choice.gpus) return "not enough free now";
    if (is_kept_apart(problem, task, choice, packing))
        return "as many are free, but not below one switch or in one block";
    if (has_room_apart(problem, task, choice, packing))
        return "as many are free, but farther apart, where it would end later";
    if (packing.could_stand(task, choice))
        return "the CPUs or the memory beside the free GPUs are in use";
    return why_not_in_pieces(problem, task, choice, packing);
}

Leftover::Leftover(const Problem& problem, const Packing& left, std::span<const Action> actions,
                   const std::vector<bool>& keeps)
    : packing(&left) {
    for (const Action& action : actions)
        given.insert(given.end(), action.nodes.begin(), action.nodes.end());
    for (std::size_t i = 0; i < keeps.size(); ++i) {
        const std::vector<NodeIndex>& nodes = problem.tasks()[i].job->nodes;
        if (keeps[i]) given.insert(given.end(), nodes.begin(), nodes.end());
    }
}

std::string waits_for(const Problem& problem, const Task& task, const Offer& offer,
                      const Leftover& left) {
    const Choice& choice = problem.choice(problem.find_choice(task, offer));
    const bool others_have_some =
        std::any_of(left.given.begin(), left.given.end(), [&](NodeIndex n) {
            return problem.type_of_node(n) == choice.type &&
                   left.packing->is_in_set(task.job->node_set, n);
        });
    const bool others = others_have_some || left.packing->has_room(task, choice);
    return fmt::format("waits for {}: {}", short_form(offer.grid),
                       others ? "others make more of the GPUs now"
                              : why_not_free(problem, task, choice, *left.packing));
}

std::vector<NodeIndex> hosts_of(const Problem& problem, const Task& task, const Offer& offer) {
    std::vector<NodeIndex> hosts;
    (void)any_place(*task.job, [&](const Place& place, std::uint32_t) {
        const auto here = hosts_in(problem, task, offer.grid, place, true);
        hosts.insert(hosts.end(), here.begin(), here.end());
        return false;
    });
    std::sort(hosts.begin(), hosts.end());
    hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
    return hosts;
}

std::vector<Action> reservations(const Problem& problem, std::span<const double> values,
                                 const Leftover& left, std::vector<bool>& given) {
    std::vector<Action> actions;
    if (problem.options().reserve_depth <= 0) return actions;
    std::vector<std::int64_t> depth(problem.types(), problem.options().reserve_depth);
    Packing after = *left.packing;
    for (const std::size_t i : waiting_in_order(problem)) {
        if (given[i]) continue;
        if (std::all_of(depth.begin(), depth.end(), [](std::int64_t n) { return n <= 0; })) break;
        const Task& task = problem.tasks()[i];
        const Offer* offer = shape_for(problem, task, values);
        if (offer == nullptr) continue;
        // Slurm would start it at once on the nodes that are too far apart.
        const Choice& nearest = problem.choice(problem.find_choice(task, *offer));
        if (has_room_apart(problem, task, nearest, *left.packing)) continue;
        std::int64_t& of_type =
            depth[static_cast<std::size_t>(problem.type_of(offer->grid.gpu_type))];
        if (of_type <= 0) continue;
        std::optional<std::vector<NodeIndex>> kept =
            kept_of(problem, task, *offer, left.slurms, after);
        if (!kept) continue;
        --of_type;
        actions.push_back({.kind = ActionKind::reshape_and_wait,
                           .job = task.job->id,
                           .offer = *offer,
                           .reason = waits_for(problem, task, *offer, left),
                           .kept = *std::move(kept)});
        given[i] = true;
    }
    return actions;
}

bool only_in_pieces(const Problem& problem, const Task& task) {
    bool in_pieces = false;
    for (const Choice& choice : problem.choices(task))
        for (const Offer* offer : problem.offers(choice))
            in_pieces = in_pieces || offer->grid.is_uneven();
    if (!in_pieces) return false;
    for (const Choice& choice : problem.choices(task))
        for (const Offer* offer : problem.offers(choice))
            if (!offer->grid.is_uneven() && could_hold(problem, task, offer->grid)) return false;
    return pieces_for(problem, task) != nullptr;
}

void say_what_is_impossible(const Problem& problem, Decision& decision) {
    std::set<JobId> known;
    for (const Task& task : problem.tasks()) known.insert(task.job->id);
    for (const JobState& job : problem.snapshot().jobs) {
        if (job.phase == JobPhase::pending && !job.ordinary && !known.contains(job.id))
            decision.waiting.emplace(job.id, nowhere_words);
    }
}

std::string waiting_words(const Problem& problem, const Task& task, std::span<const double> values,
                          const Leftover& left) {
    const Offer* offer = shape_for(problem, task, values);
    if (offer == nullptr) offer = pieces_for(problem, task);
    return offer ? waits_for(problem, task, *offer, left) : nowhere_words;
}

}  // namespace arena
