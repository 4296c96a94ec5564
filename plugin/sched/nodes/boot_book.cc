// SPDX-License-Identifier: GPL-2.0-or-later
// See boot_book.h.
#include "plugin/sched/nodes/boot_book.h"

#include <algorithm>

namespace arena {
namespace {

/// Between two looks so near to each other a node does not boot and fall asleep again.
constexpr double near_looks_s = 15;

}  // namespace

/// A boot that was seen from its middle on would teach too short a time: what may have gone by
/// unseen is to be less than what was seen.
void BootBook::learn(Known& known, double now_s) {
    if (!known.waking_since_s) return;
    const double seen_s = now_s - *known.waking_since_s;
    if (*known.waking_since_s - known.asleep_s < seen_s) known.took_s = std::max(seen_s, 1.0);
}

/// slurmctld has a node that did not boot DOWN for as long as nothing answers there: what is seen
/// may be no more than that it sleeps again. One that somebody powers down falls asleep first.
void BootBook::take_in(const NodeState& node, std::optional<NodePower> power, double now_s) {
    if (!power && !known_.contains(node.name)) return;
    Known& known = known_[node.name];
    const auto before = known.learned();
    known.gpu_type = node.gpu_type;
    if (!power && node.up) {
        learn(known, now_s);
        known.failed_s = -INFINITY;
    }
    const bool sleeps_again =
        known.waking_since_s && power == NodePower::asleep && now_s <= known.seen_s + near_looks_s;
    known.unbooted = power == NodePower::unbooted;
    if (known.unbooted || sleeps_again) known.failed_s = now_s;
    if (power == NodePower::asleep || power == NodePower::falling_asleep) known.asleep_s = now_s;
    known.seen_s = now_s;
    if (power != NodePower::waking)
        known.waking_since_s.reset();
    else if (!known.waking_since_s)
        known.waking_since_s = now_s;
    changed_ = changed_ || known.learned() != before;
}

double BootBook::boot_s(const NodeState& node, const Known* known, double now_s) const {
    double needed_s = node.boot_s;
    if (known && known->took_s > 0)
        needed_s = std::min(needed_s, known->took_s);
    else if (const auto at = longest_.find(node.gpu_type); at != longest_.end())
        needed_s = std::min(needed_s, at->second);
    const bool wakes = known && known->waking_since_s;
    return std::max(wakes ? needed_s - (now_s - *known->waking_since_s) : needed_s, 1.0);
}

/// A clock that was set back puts nothing into the future.
void BootBook::recall(const std::vector<NodeState>& nodes, double now_s) {
    if (recalled_.empty()) return;
    const auto when = [&](double wall_s) {
        return wall_s > 0 ? std::min(wall_s - epoch_s_, now_s) : -INFINITY;
    };
    for (const NodeState& node : nodes) {
        const auto at = recalled_.find(node.name);
        if (at == recalled_.end() || known_.contains(node.name)) continue;
        const Seen& seen = at->second;
        Known& known = known_[node.name];
        known.gpu_type = node.gpu_type;
        known.took_s = seen.took_s;
        known.failed_s = when(seen.failed_s);
        known.asleep_s = when(seen.asleep_s);
        if (seen.waking_s > 0) known.waking_since_s = when(seen.waking_s);
    }
    recalled_.clear();
}

BootBook::Kept BootBook::keep() const {
    Kept kept = recalled_;
    const auto wall = [&](double when_s) { return std::max(when_s + epoch_s_, 0.0); };
    for (const auto& [name, known] : known_)
        kept[name] = {.took_s = known.took_s,
                      .failed_s = wall(known.failed_s),
                      .asleep_s = wall(known.asleep_s),
                      .waking_s = wall(known.waking_since_s.value_or(-INFINITY))};
    return kept;
}

void BootBook::new_round(ClusterView& view) {
    std::vector<NodeState>& nodes = view.snapshot.nodes;
    const double now_s = view.steady_s;
    epoch_s_ = view.snapshot.time_s - now_s;
    recall(nodes, now_s);
    if (view.power.empty() && known_.empty()) return;
    for (NodeIndex n = 0; n < nodes.size(); ++n) {
        if (nodes[n].same_node) continue;
        const auto power = view.power.find(n);
        take_in(nodes[n], power == view.power.end() ? std::nullopt : std::optional(power->second),
                now_s);
    }
    longest_.clear();
    for (const auto& [name, known] : known_)
        if (known.took_s > 0)
            longest_[known.gpu_type] = std::max(longest_[known.gpu_type], known.took_s);
    for (NodeIndex n = 0; n < nodes.size(); ++n) {
        const auto known = known_.find(nodes[n].name);
        if (known != known_.end() && now_s < known->second.failed_s + rest_s_)
            view.power[n] = NodePower::unbooted;
        if (nodes[n].boot_s > 0)
            nodes[n].boot_s =
                boot_s(nodes[n], known == known_.end() ? nullptr : &known->second, now_s);
    }
}

}  // namespace arena
