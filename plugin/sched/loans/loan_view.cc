// SPDX-License-Identifier: GPL-2.0-or-later
// See loan_view.h.
#include "plugin/sched/loans/loan_view.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace arena {

// ---- what a round has found --------------------------------------------------------------------

LoanPlaces places_of(const Config& config) {
    return {config.loan_inference_partitions, config.loan_partition};
}

void note_cluster(const ClusterView& cluster, LoanView& view) {
    view.time_s = cluster.snapshot.time_s;
    view.index.clear();
    view.states = cluster.snapshot.nodes;
    for (NodeIndex i = 0; i < view.states.size(); ++i) view.index.emplace(view.states[i].name, i);
    view.used.clear();
    view.inferences.clear();
    view.others.clear();
    for (const LoanFacts::Job& job : view.facts.jobs)
        for (const auto& [node, gpus] : job.nodes) {
            (job.inference ? view.inferences : view.used).insert(node);
            if (!job.inference && !job.preemptable) view.others.insert(node);
        }
}

std::set<std::string> nodes_concerned(const LoanView& view) {
    std::set<std::string> nodes;
    for (const auto& [node, lease] : view.leases) nodes.insert(node);
    for (const auto& [node, guard] : view.facts.guards) nodes.insert(node);
    std::erase_if(nodes, [&](const std::string& node) { return !view.index.contains(node); });
    return nodes;
}

std::string partition_of(const LoanFacts& facts, const std::string& node) {
    for (const auto& [partition, names] : facts.inference)
        if (std::binary_search(names.begin(), names.end(), node)) return partition;
    return "inference";
}

bool has_own_guard(const std::string& node, const std::optional<Lease>& lease,
                   const LoanView& view) {
    const auto guard = view.facts.guards.find(node);
    return guard != view.facts.guards.end() &&
           (!lease || lease->loan == 0 || guard->second.lease == loan_name(lease->loan));
}

LoanNode node_as_seen(const std::string& node, const LoanView& view) {
    LoanNode is;
    if (const auto lease = view.leases.find(node); lease != view.leases.end())
        is.lease = lease->second;
    is.used = view.used.contains(node);
    is.lents = is.used && !view.others.contains(node);
    is.inference = view.inferences.contains(node);
    if (has_own_guard(node, is.lease, view)) is.guard = view.facts.guards.at(node).kind;
    is.up = view.states[view.index.find(node)->second].up;
    return is;
}

LoanNet::Places places_not_there(const LoanView& view, const std::map<std::string, double>& home) {
    LoanNet::Places places;
    const auto add = [&](const std::string& node, bool comes_back) {
        const auto at = view.index.find(node);
        if (at == view.index.end() || view.inferences.contains(node)) return;
        const NodeState& state = view.states[at->second];
        places[node] = {state.gpu_type, state.total_gpus, comes_back};
    };
    for (const auto& [node, lease] : view.leases)
        if (lease.state == LeaseState::lent || lease.state == LeaseState::returning)
            add(node, lease.state == LeaseState::returning);
    for (const auto& [node, since_s] : home) add(node, true);
    return places;
}

LoanNumber newest_loan(const LoanFacts& facts) {
    LoanNumber newest = 0;
    for (const auto& [node, guard] : facts.guards)
        if (const auto loan = parse_loan_name(guard.lease)) newest = std::max(newest, *loan);
    return newest;
}

// ---- what no record has ------------------------------------------------------------------------

std::size_t lent_nodes(const LoanMemory& memory) {
    return static_cast<std::size_t>(
        std::count_if(memory.known.begin(), memory.known.end(),
                      [](const auto& entry) { return entry.second.state == LeaseState::lent; }));
}

std::vector<std::string> lent_among(const LoanMemory& memory,
                                    const std::vector<std::string>& nodes) {
    std::vector<std::string> lent;
    for (const std::string& node : nodes)
        if (memory.known.contains(node)) lent.push_back(node);
    return lent;
}

bool is_open(LeaseState state) { return state == LeaseState::offered || state == LeaseState::lent; }

std::vector<std::string> open_leases(const LoanMemory& memory) {
    std::vector<std::string> nodes;
    for (const auto& [node, lease] : memory.known)
        if (is_open(lease.state)) nodes.push_back(node);
    return nodes;
}

// ---- what others did ---------------------------------------------------------------------------

ListChange note_list(const LoanFacts& facts, LoanHands& hands) {
    if (std::exchange(hands.configured, facts.configured) != facts.configured) {
        hands.taken_out.clear();
        hands.put_in.clear();
        hands.listed.reset();
    }
    ListChange change;
    if (!hands.listed || *hands.listed == facts.listed) return change;
    const auto before = *std::exchange(hands.listed, facts.listed);
    std::set_difference(before.begin(), before.end(), facts.listed.begin(), facts.listed.end(),
                        std::back_inserter(change.gone));
    std::set_difference(facts.listed.begin(), facts.listed.end(), before.begin(), before.end(),
                        std::back_inserter(change.come));
    for (const std::string& node : change.gone) {
        hands.taken_out.insert(node);
        hands.put_in.erase(node);
    }
    for (const std::string& node : change.come) {
        hands.put_in.insert(node);
        hands.taken_out.erase(node);
    }
    return change;
}

// ---- what is to be -----------------------------------------------------------------------------

std::vector<std::string> nodes_to_list(const LoanPlan& plan, const LoanFacts& facts,
                                       const LoanHands& hands) {
    std::set<std::string> nodes;
    for (const LoanPlan::Node& planned : plan.nodes)
        if (planned.step.listed) nodes.insert(planned.node);
    std::set<std::string> inferences;
    for (const auto& [partition, names] : facts.inference)
        inferences.insert(names.begin(), names.end());
    for (const std::string& node : facts.training)
        if (!inferences.contains(node)) nodes.insert(node);
    nodes.insert(hands.put_in.begin(), hands.put_in.end());
    for (const std::string& node : hands.taken_out) nodes.erase(node);
    return {nodes.begin(), nodes.end()};
}

}  // namespace arena
