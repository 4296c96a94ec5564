// SPDX-License-Identifier: GPL-2.0-or-later
// See power.h.
#include "sim/power/power.h"

#include <algorithm>
#include <limits>

namespace arena::sim {

Power::Power(std::vector<PowerRule> rules) {
    nodes_.reserve(rules.size());
    for (const PowerRule& rule : rules) nodes_.push_back({.rule = rule});
}

double Power::sleeps_s(const Node& node) {
    if (node.busy || node.rule.suspend_s <= 0) return std::numeric_limits<double>::infinity();
    return node.idle_since_s + node.rule.suspend_s;
}

double Power::boot_s(NodeIndex node, double now_s) const {
    const Node& n = nodes_[node];
    return now_s >= sleeps_s(n) ? n.rule.boot_s : std::max(n.up_s - now_s, 0.0);
}

double Power::take(NodeIndex node, double now_s) {
    const double boot = boot_s(node, now_s);
    Node& n = nodes_[node];
    if (now_s >= sleeps_s(n)) {
        awake_node_s_ += sleeps_s(n) - n.awake_since_s;
        n.awake_since_s = now_s;
        n.up_s = now_s + boot;
        ++boots_;
    }
    n.busy = true;
    return boot;
}

void Power::note_idle(NodeIndex node, double now_s) {
    Node& n = nodes_[node];
    n.busy = false;
    n.idle_since_s = std::max(now_s, n.up_s);
}

PowerMetrics Power::until(double end_s) const {
    PowerMetrics m{.boots = boots_,
                   .awake_node_s = awake_node_s_,
                   .node_s = end_s * static_cast<double>(nodes_.size())};
    for (const Node& n : nodes_)
        m.awake_node_s += std::max(std::min(end_s, sleeps_s(n)) - n.awake_since_s, 0.0);
    return m;
}

}  // namespace arena::sim
