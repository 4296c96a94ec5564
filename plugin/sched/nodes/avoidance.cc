// SPDX-License-Identifier: GPL-2.0-or-later
// See avoidance.h.
#include "plugin/sched/nodes/avoidance.h"

#include <algorithm>
#include <iterator>

namespace arena {
namespace {

bool holds_at(const AvoidedNode& avoided, double now_s) {
    return static_cast<double>(avoided.until) > now_s;
}

}  // namespace

const Avoidance::Wishes Avoidance::none;

Avoidance::Avoidance(ClusterView& view, std::vector<NodeIndex> by_all, const Wishes& wishes)
    : view_(view), by_all_(std::move(by_all)), wishes_(wishes) {}

void Avoidance::add_nodes(const std::vector<AvoidedNode>& avoid,
                          std::vector<NodeIndex>& nodes) const {
    const auto& all = view_.snapshot.nodes;
    for (const AvoidedNode& avoided : avoid) {
        if (!holds_at(avoided, view_.snapshot.time_s)) continue;
        const auto at = std::find_if(all.begin(), all.end(), [&](const NodeState& node) {
            return node.name == avoided.node;
        });
        if (at != all.end()) nodes.push_back(static_cast<NodeIndex>(at - all.begin()));
    }
}

std::vector<NodeIndex> Avoidance::avoided_by(const JobView& job) const {
    std::vector<NodeIndex> nodes = by_all_;
    if (job.facts.mark) add_nodes(job.facts.mark->avoid, nodes);
    if (const auto wishes = wishes_.find(job.id); wishes != wishes_.end())
        add_nodes(wishes->second, nodes);
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
}

void Avoidance::restrict(JobView& job) {
    const std::vector<NodeIndex> nodes = avoided_by(job);
    if (nodes.empty() || job.node_set >= view_.snapshot.node_sets.size()) return;
    const auto& all = view_.snapshot.node_sets[job.node_set];
    std::vector<NodeIndex> avoided, left;
    std::set_intersection(all.begin(), all.end(), nodes.begin(), nodes.end(),
                          std::back_inserter(avoided));
    std::set_difference(all.begin(), all.end(), nodes.begin(), nodes.end(),
                        std::back_inserter(left));
    const bool some = std::any_of(left.begin(), left.end(), [&](NodeIndex index) {
        return view_.snapshot.nodes[index].total_gpus > 0;
    });
    if (avoided.empty() || !some) return;
    job.node_set = without(job.node_set, avoided);
    for (PartitionSlot& slot : job.slots)
        slot.place.node_set = without(slot.place.node_set, avoided);
    job.avoided = std::move(avoided);
}

std::uint32_t Avoidance::without(std::uint32_t node_set, const std::vector<NodeIndex>& nodes) {
    const auto [at, added] = sets_.try_emplace({node_set, nodes}, node_set);
    if (!added) return at->second;
    std::vector<NodeIndex> left;
    const auto& all = view_.snapshot.node_sets[node_set];
    std::set_difference(all.begin(), all.end(), nodes.begin(), nodes.end(),
                        std::back_inserter(left));
    if (left.size() == all.size()) return node_set;
    at->second = static_cast<std::uint32_t>(view_.snapshot.node_sets.size());
    view_.whole_sets[at->second] = node_set;
    view_.snapshot.node_sets.push_back(std::move(left));
    return at->second;
}

void avoid_nothing(const ClusterView& view, JobView& job) {
    job.node_set = view.whole_set(job.node_set);
    for (PartitionSlot& slot : job.slots) slot.place.node_set = view.whole_set(slot.place.node_set);
    job.avoided.clear();
}

std::vector<std::string> nodes_to_leave(const JobView& job, const std::vector<AvoidedNode>& wishes,
                                        const Snapshot& snapshot) {
    const auto says_so = [&](const std::vector<AvoidedNode>& list, const std::string& node) {
        return std::any_of(list.begin(), list.end(), [&](const AvoidedNode& avoided) {
            return avoided.node == node && holds_at(avoided, snapshot.time_s);
        });
    };
    std::vector<std::string> names;
    for (const NodeIndex index : job.nodes) {
        const std::string& node = snapshot.nodes[index].name;
        if ((job.facts.mark && says_so(job.facts.mark->avoid, node)) || says_so(wishes, node))
            names.push_back(node);
    }
    return names;
}

bool is_noted(const std::vector<AvoidedNode>& wishes, const JobView& job, double now_s) {
    const auto noted = [&](const AvoidedNode& wish) {
        const auto& mark = job.facts.mark->avoid;
        return std::any_of(mark.begin(), mark.end(), [&](const AvoidedNode& known) {
            return known.node == wish.node && holds_at(known, now_s);
        });
    };
    return std::all_of(wishes.begin(), wishes.end(), noted);
}

}  // namespace arena
