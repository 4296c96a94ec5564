// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/slow/slow_cluster.h"

#include <algorithm>
#include <limits>

namespace arena::sim {

SlowCluster::SlowCluster(std::vector<Slowdown> slowdowns, const std::vector<NodeState>& nodes,
                         const SlowdownRules& rules)
    : slowdowns_(std::move(slowdowns)), nodes_(nodes), rules_(rules) {
    for (const NodeState& node : nodes)
        taken_.emplace_back(static_cast<std::size_t>(node.total_gpus), false);
}

double SlowCluster::next_s() const {
    double at_s = std::numeric_limits<double>::infinity();
    if (next_ < slowdowns_.size()) at_s = slowdowns_[next_].start_s;
    for (const Slowdown& slow : active_) at_s = std::min(at_s, slow.end_s());
    for (const auto& [node, fact] : facts_) at_s = std::min(at_s, fact.until_s);
    return at_s;
}

bool SlowCluster::advance(double now_s) {
    const std::size_t ended =
        std::erase_if(active_, [&](const Slowdown& slow) { return slow.end_s() <= now_s; });
    bool changed = ended > 0;
    for (; next_ < slowdowns_.size() && slowdowns_[next_].start_s <= now_s; ++next_) {
        if (slowdowns_[next_].end_s() <= now_s) continue;
        active_.push_back(slowdowns_[next_]);
        changed = true;
    }
    recheck(now_s);
    return changed;
}

std::vector<Device> SlowCluster::take(std::span<const NodeIndex> nodes, std::int64_t per_node) {
    std::vector<Device> devices;
    for (const NodeIndex node : nodes) {
        std::int64_t wanted = per_node;
        for (std::size_t gpu = 0; gpu < taken_[node].size() && wanted > 0; ++gpu) {
            if (taken_[node][gpu]) continue;
            taken_[node][gpu] = true;
            devices.emplace_back(node, static_cast<std::int64_t>(gpu));
            --wanted;
        }
    }
    return devices;
}

void SlowCluster::give_back(const std::vector<Device>& devices) {
    for (const auto& [node, gpu] : devices) taken_[node][static_cast<std::size_t>(gpu)] = false;
}

void SlowCluster::note(JobId job, std::span<const NodeIndex> nodes, double now_s) {
    for (const NodeIndex node : nodes) {
        Fact& fact = facts_[node];
        if (fact.by.empty()) fact.since_s = now_s;
        fact.by.insert(job);
        fact.until_s = now_s + rules_.recheck_s;
    }
    quarantine();
}

bool SlowCluster::is_slow(NodeIndex node) const {
    return std::any_of(active_.begin(), active_.end(), [&](const Slowdown& slow) {
        return slow.cause == slowdown::Cause::compute && slow.node == node;
    });
}

/// A verdict that has had its time is tested: the check of a node that is slow still confirms it.
void SlowCluster::recheck(double now_s) {
    bool changed = false;
    for (auto at = facts_.begin(); at != facts_.end();) {
        if (at->second.until_s > now_s) {
            ++at;
        } else if (is_slow(at->first)) {
            (at++)->second.until_s = now_s + rules_.recheck_s;
        } else {
            at = facts_.erase(at);
            changed = true;
        }
    }
    if (changed) quarantine();
}

void SlowCluster::quarantine() {
    std::vector<Suspect> suspects;
    for (const auto& [node, fact] : facts_)
        if (std::ssize(fact.by) >= rules_.confirmations)
            suspects.push_back({node, static_cast<std::int64_t>(fact.since_s)});
    quarantined_ = choose_quarantined(std::move(suspects), nodes_, rules_);
    most_quarantined_ = std::max(most_quarantined_, quarantined_.size());
}

}  // namespace arena::sim
