// SPDX-License-Identifier: GPL-2.0-or-later
// Few tasks on few nodes: see exhaustive.h.
#include "policy/arena/exhaustive.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "policy/places.h"

namespace arena {
namespace {

constexpr std::size_t most_tasks = 12, most_nodes = 24;
/// States of the nodes that are remembered: some hundred bytes each.
constexpr std::size_t most_states = std::size_t{1} << 14;
/// A sum has to be greater by this share to be another one.
constexpr double least_step = 1e-9;

}  // namespace

bool Exhaustive::is_small(const Problem& problem) {
    return problem.tasks().size() <= most_tasks && problem.snapshot().nodes.size() <= most_nodes;
}

Exhaustive::Exhaustive(const Problem& problem, const Packing& layouts,
                       std::span<const double> values, std::span<const double> moved,
                       const std::vector<double>& prices)
    : problem_(problem), fabric_(layouts.fabric()) {
    const Snapshot& snapshot = problem.snapshot();
    for (NodeIndex n = 0; n < snapshot.nodes.size(); ++n) {
        const NodeState& node = snapshot.nodes[n];
        nodes_.push_back({.gpus = fabric_.is_outside(n) ? 0 : node.free_gpus,
                          .cpus = node.free_cpus,
                          .memory_mb = node.free_memory_mb,
                          .type = problem.type_of_node(n),
                          .same_node = node.same_node});
    }
    for (std::size_t t = 0; t < problem.types(); ++t)
        free_.push_back(layouts.free_gpus(static_cast<std::int32_t>(t)));
    for (const auto& set : snapshot.node_sets) {
        auto& in = in_set_.emplace_back(nodes_.size());
        for (const NodeIndex n : set) in[n] = true;
    }
    options_.resize(problem.tasks().size());
    for (std::size_t i = 0; i < problem.tasks().size(); ++i) {
        const Task& task = problem.tasks()[i];
        take_current(*task.job, -1);
        add_options(layouts, values, moved[i], i);
    }
    order_.resize(options_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
        const auto most = [&](std::size_t i) {
            return options_[i].empty() ? 0 : options_[i].front().value;
        };
        return most(a) > most(b);
    });
    find_kinds();
    find_bounds(prices);
}

void Exhaustive::add_options(const Packing& layouts, std::span<const double> values, double moved,
                             std::size_t i) {
    const Task& task = problem_.tasks()[i];
    auto& options = options_[i];
    auto at = static_cast<std::int32_t>(task.first_choice);
    for (const Choice& choice : problem_.choices(task)) {
        const double value = values[static_cast<std::size_t>(at)];
        const bool is_current = at++ == task.current;
        if (is_current && value > 0) options.push_back({value, &choice, nullptr, 0});
        const double elsewhere = is_current ? moved : value;
        if (elsewhere <= 0) continue;
        const std::size_t first = options.size();
        (void)layouts.any_layout(choice, [&](const Offer& offer, std::int64_t per_node) {
            if (offer.grid.is_uneven()) return false;
            const bool known =
                std::any_of(options.begin() + static_cast<std::ptrdiff_t>(first), options.end(),
                            [&](const Option& o) {
                                return o.per_node == per_node && o.offer->segment == offer.segment;
                            });
            if (known) return false;
            return any_place(*task.job, [&](const Place& place, std::uint32_t index) {
                if (allows(place, *task.job, choice.gpus / per_node, per_node))
                    options.push_back({elsewhere, &choice, &offer, per_node, index, place.node_set,
                                       problem_.is_limited(place)});
                return false;
            });
        });
    }
    std::stable_sort(options.begin(), options.end(),
                     [](const Option& a, const Option& b) { return a.value > b.value; });
}

/// A node on which a task stands, and to which it may want to return, is like no other. Nor is one
/// whose CPUs are another GPU type's, too.
void Exhaustive::find_kinds() {
    std::vector<bool> held(nodes_.size());
    for (const Task& task : problem_.tasks())
        for (const NodeIndex n : task.job->nodes) held[n] = true;
    for (std::size_t n = 1; n < nodes_.size(); ++n)
        if (nodes_[n].same_node) held[n - 1] = held[n] = true;
    std::map<std::vector<std::int32_t>, std::int32_t> kinds;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
        std::vector<std::int32_t> key{nodes_[n].type, held[n] ? static_cast<std::int32_t>(n) : -1};
        if (fabric_.has_limits() || problem_.has_spans())
            key.push_back(static_cast<std::int32_t>(fabric_.leaf_of(static_cast<NodeIndex>(n))));
        for (const auto& set : in_set_) key.push_back(set[n]);
        nodes_[n].kind = kinds.emplace(std::move(key), static_cast<std::int32_t>(n)).first->second;
    }
}

void Exhaustive::find_bounds(const std::vector<double>& prices) {
    prices_ = prices;
    rest_net_.assign(order_.size() + 1, 0);
    rest_value_.assign(order_.size() + 1, 0);
    for (std::size_t depth = order_.size(); depth-- > 0;) {
        double net = 0, value = 0;
        for (const Option& o : options_[order_[depth]]) {
            value = std::max(value, o.value);
            net = std::max(
                net, o.value - prices_[static_cast<std::size_t>(o.choice->type)] * o.choice->gpus);
        }
        rest_net_[depth] = rest_net_[depth + 1] + net;
        rest_value_[depth] = rest_value_[depth + 1] + value;
    }
}

/// Of what the tasks from the depth on can add.
double Exhaustive::bound(std::size_t depth) const {
    double priced = rest_net_[depth];
    for (std::size_t t = 0; t < free_.size(); ++t)
        priced += prices_[t] * static_cast<double>(free_[t]);
    return std::min(priced, rest_value_[depth]);
}

/// Whether the nodes were never so at this depth, or only with less in hand.
bool Exhaustive::is_new(std::size_t depth, double sum) {
    steps_ -= static_cast<std::int64_t>(nodes_.size());
    std::string key(1, static_cast<char>(depth));
    for (const Node& node : nodes_) {
        const std::int64_t free[] = {node.gpus, node.cpus, node.memory_mb};
        key.append(reinterpret_cast<const char*>(free), sizeof free);
    }
    const auto known = seen_.find(key);
    if (known == seen_.end()) {
        if (seen_.size() < most_states) seen_.emplace(std::move(key), sum);
        return true;
    }
    if (sum <= known->second) return false;
    known->second = sum;
    return true;
}

void Exhaustive::take(const JobState& job, NodeIndex n, std::int64_t gpus) {
    nodes_[n].gpus -= gpus;
    free_[static_cast<std::size_t>(nodes_[n].type)] -= gpus;
    while (nodes_[n].same_node) --n;
    do {
        nodes_[n].cpus -= gpus * job.cpus_per_gpu;
        nodes_[n].memory_mb -= gpus * job.memory_mb_per_gpu;
    } while (++n < nodes_.size() && nodes_[n].same_node);
}

/// What a running job has, so many times.
void Exhaustive::take_current(const JobState& job, std::int64_t times) {
    for (std::size_t n = 0; n < job.nodes.size(); ++n)
        take(job, job.nodes[n], times * job.current->grid.gpus_on(n));
}

bool Exhaustive::fits(const JobState& job, const Node& node, std::int32_t type, std::int64_t gpus) {
    return node.type == type && node.gpus >= gpus && node.cpus >= gpus * job.cpus_per_gpu &&
           node.memory_mb >= gpus * job.memory_mb_per_gpu;
}

bool Exhaustive::is_like_an_earlier_one(std::size_t from, std::size_t n) const {
    const auto key = [](const Node& node) {
        return std::tie(node.kind, node.gpus, node.cpus, node.memory_mb);
    };
    for (std::size_t earlier = from; earlier < n; ++earlier) {
        if (key(nodes_[earlier]) == key(nodes_[n])) return true;
    }
    return false;
}

void Exhaustive::stay(std::size_t depth, const Option& option, double sum) {
    const JobState& job = *problem_.tasks()[order_[depth]].job;
    for (std::size_t n = 0; n < job.nodes.size(); ++n) {
        if (!fits(job, nodes_[job.nodes[n]], option.choice->type, job.current->grid.gpus_on(n)))
            return;
    }
    take_current(job, 1);
    outcomes_[order_[depth]].stays = true;
    descend(depth + 1, sum + option.value);
    outcomes_[order_[depth]].stays = false;
    take_current(job, -1);
}

/// On all sets of nodes, from node `from` on, that complete the placement begun.
void Exhaustive::place(std::size_t depth, const Option& option, std::size_t from, double sum) {
    const JobState& job = *problem_.tasks()[order_[depth]].job;
    auto& chosen = outcomes_[order_[depth]].placement.nodes;
    if (static_cast<std::int64_t>(chosen.size()) * option.per_node == option.choice->gpus) {
        outcomes_[order_[depth]].placement.span = fabric_.span_of(chosen);
        if ((!option.is_limited || fabric_.allows(chosen)) && is_near_enough(option, chosen))
            descend(depth + 1, sum + option.value);
        return;
    }
    for (std::size_t n = from; n < nodes_.size() && steps_ > 0; ++n) {
        --steps_;
        const bool allowed = option.node_set < in_set_.size() && in_set_[option.node_set][n];
        if (!allowed || !fits(job, nodes_[n], option.choice->type, option.per_node) ||
            is_like_an_earlier_one(from, n))
            continue;
        take(job, static_cast<NodeIndex>(n), option.per_node);
        chosen.push_back(static_cast<NodeIndex>(n));
        place(depth, option, n + 1, sum);
        chosen.pop_back();
        take(job, static_cast<NodeIndex>(n), -option.per_node);
    }
}

bool Exhaustive::is_near_enough(const Option& option, const std::vector<NodeIndex>& nodes) const {
    return fabric_.span_of(nodes) <= problem_.widest(*option.choice, *option.offer) &&
           fabric_.keeps_segments(nodes, option.offer->segment);
}

void Exhaustive::descend(std::size_t depth, double sum) {
    if (--steps_ <= 0 || sum + bound(depth) <= most_ * (1 + least_step)) return;
    if (depth == order_.size()) {
        most_ = sum;
        best_ = outcomes_;
        return;
    }
    if (!is_new(depth, sum)) return;
    Outcome& outcome = outcomes_[order_[depth]];
    for (const Option& option : options_[order_[depth]]) {
        if (sum + option.value + rest_value_[depth + 1] <= most_ * (1 + least_step)) break;
        if (option.per_node == 0) {
            stay(depth, option, sum);
            continue;
        }
        outcome.placement.offer = option.offer;
        outcome.placement.gpus_per_node = option.per_node;
        outcome.placement.place = option.place;
        place(depth, option, 0, sum);
    }
    descend(depth + 1, sum);
}

std::vector<Outcome> Exhaustive::search(double least, std::int64_t& steps) {
    most_ = least;
    steps_ = steps;
    outcomes_.assign(order_.size(), {});
    best_.clear();
    seen_.clear();
    descend(0, 0);
    steps = steps_;
    return std::move(best_);
}

}  // namespace arena
