// SPDX-License-Identifier: GPL-2.0-or-later
// See avoidance.h.
#include "plugin/sched/nodes/avoidance.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace arena {
namespace {

bool holds_at(const AvoidedNode& avoided, double now_s) {
    return static_cast<double>(avoided.until) > now_s;
}

bool has(const std::vector<NodeIndex>& ascending, NodeIndex index) {
    return std::binary_search(ascending.begin(), ascending.end(), index);
}

bool is_end(const NodePair& pair, NodeIndex node) {
    return pair.first == node || pair.second == node;
}

template <typename T>
void sort_unique(std::vector<T>& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
}

void take(JobView& job, AvoidingChoice choice) {
    job.node_set = choice.node_set;
    for (std::size_t i = 0; i < job.slots.size(); ++i)
        job.slots[i].place.node_set = choice.slot_sets[i];
    job.avoided = std::move(choice.avoided);
}

AvoidingChoice choice_of_all(const JobView& job) {
    AvoidingChoice choice{.node_set = job.node_set, .slot_sets = {}, .avoided = {}};
    for (const PartitionSlot& slot : job.slots) choice.slot_sets.push_back(slot.place.node_set);
    return choice;
}

}  // namespace

const Avoidance::Wishes Avoidance::none;

Avoidance::Avoidance(ClusterView& view, const AvoidedNodes& avoided, const Wishes& wishes)
    : view_(view), avoided_(avoided), wishes_(wishes) {}

void Avoidance::add_nodes(const std::vector<AvoidedNode>& avoid,
                          std::vector<NodeIndex>& nodes) const {
    const auto& all = view_.snapshot.nodes;
    for (const AvoidedNode& avoided : avoid) {
        if (!holds_at(avoided, view_.snapshot.time_s)) continue;
        const auto at = std::find_if(all.begin(), all.end(), [&](const NodeState& node) {
            return node.name == avoided.node;
        });
        const auto index = static_cast<NodeIndex>(at - all.begin());
        if (at != all.end() && !has(avoided_.innocent, index)) nodes.push_back(index);
    }
}

Avoidance::Of Avoidance::avoided_by(const JobView& job) const {
    Of all{avoided_.nodes, avoided_.pairs};
    if (const auto own = avoided_.own.find(job.user_id); own != avoided_.own.end()) {
        all.nodes.insert(all.nodes.end(), own->second.nodes.begin(), own->second.nodes.end());
        all.pairs.insert(all.pairs.end(), own->second.pairs.begin(), own->second.pairs.end());
    }
    std::vector<NodeIndex> said;
    if (job.facts.mark) add_nodes(job.facts.mark->avoid, said);
    if (const auto wishes = wishes_.find(job.id); wishes != wishes_.end())
        add_nodes(wishes->second, said);
    sort_unique(said);
    for (const NodePair& pair : avoided_.open)
        if (has(said, pair.first) && has(said, pair.second)) all.pairs.push_back(pair);
    sort_unique(all.pairs);
    for (const NodeIndex index : said)
        if (!has(avoided_.linked, index) ||
            std::none_of(all.pairs.begin(), all.pairs.end(),
                         [&](const NodePair& pair) { return is_end(pair, index); }))
            all.nodes.push_back(index);
    sort_unique(all.nodes);
    return all;
}

/// Nothing where it has none of these nodes, whatever their GPU types, or no others.
std::optional<AvoidingChoice> Avoidance::choice(const JobView& job,
                                                const std::vector<NodeIndex>& whole) {
    std::vector<NodeIndex> nodes;
    for (const NodeIndex node : whole) view_.add_parts(node, nodes);
    sort_unique(nodes);
    AvoidingChoice choice{.node_set = job.node_set, .slot_sets = {}, .avoided = {}};
    std::vector<NodeIndex> left;
    const auto& all = view_.snapshot.node_sets[job.node_set];
    std::set_intersection(all.begin(), all.end(), nodes.begin(), nodes.end(),
                          std::back_inserter(choice.avoided));
    std::set_difference(all.begin(), all.end(), nodes.begin(), nodes.end(),
                        std::back_inserter(left));
    const bool some = std::any_of(left.begin(), left.end(), [&](NodeIndex index) {
        return view_.snapshot.nodes[index].total_gpus > 0;
    });
    if (choice.avoided.empty() || !some) return std::nullopt;
    choice.node_set = without(job.node_set, choice.avoided);
    for (const PartitionSlot& slot : job.slots)
        choice.slot_sets.push_back(without(slot.place.node_set, choice.avoided));
    return choice;
}

/// Which end of a pair a job keeps where it cannot do without both differs from job to job: a slow
/// link to a third node tells which was the slow one.
void Avoidance::restrict(JobView& job) {
    if (job.node_set >= view_.snapshot.node_sets.size()) return;
    const Of all = avoided_by(job);
    std::vector<NodeIndex> both = all.nodes, one = all.nodes;
    for (const NodePair& pair : all.pairs) {
        both.push_back(pair.first);
        both.push_back(pair.second);
        one.push_back(job.id % 2 == 0 ? pair.first : pair.second);
    }
    sort_unique(both);
    sort_unique(one);
    std::vector<AvoidingChoice> choices;
    const std::array<const std::vector<NodeIndex>*, 3> steps{&both, &one, &all.nodes};
    for (const auto* nodes : steps)
        if (auto made = choice(job, *nodes))
            if (choices.empty() || choices.back().avoided != made->avoided)
                choices.push_back(std::move(*made));
    if (choices.empty()) return;
    // Without a pair nothing lies between avoiding all of it and nothing.
    if (!all.pairs.empty() && all.nodes.empty()) choices.push_back(choice_of_all(job));
    job.eased.assign(std::next(choices.begin()), choices.end());
    take(job, std::move(choices.front()));
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
    job.eased.clear();
}

bool ease_avoidance(JobView& job) {
    if (job.eased.empty()) return false;
    AvoidingChoice next = std::move(job.eased.front());
    job.eased.erase(job.eased.begin());
    take(job, std::move(next));
    return true;
}

void avoid_no_pair(JobView& job) {
    while (ease_avoidance(job)) {
    }
}

std::vector<std::string> nodes_to_leave(const JobView& job, const std::vector<AvoidedNode>& wishes,
                                        const Snapshot& snapshot, const AvoidedNodes& known) {
    const auto says_so = [&](const std::vector<AvoidedNode>& list, const std::string& node) {
        return std::any_of(list.begin(), list.end(), [&](const AvoidedNode& avoided) {
            return avoided.node == node && holds_at(avoided, snapshot.time_s);
        });
    };
    // A node with GPUs of several types is several, which stand together: the first is named.
    const auto first_of = [&](NodeIndex index) {
        while (index > 0 && snapshot.nodes[index - 1].name == snapshot.nodes[index].name) --index;
        return index;
    };
    const auto has_node = [&](NodeIndex first) {
        return std::any_of(job.nodes.begin(), job.nodes.end(),
                           [&](NodeIndex index) { return first_of(index) == first; });
    };
    // The job has the other end of none of its slow links, and can live with it.
    const auto is_half = [&](NodeIndex index) {
        return has(known.linked, index) &&
               std::none_of(known.open.begin(), known.open.end(), [&](const NodePair& pair) {
                   return is_end(pair, index) && has_node(pair.first) && has_node(pair.second);
               });
    };
    std::vector<std::string> names;
    for (const NodeIndex index : job.nodes) {
        if (has(known.innocent, first_of(index)) || is_half(first_of(index))) continue;
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
