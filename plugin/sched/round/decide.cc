// SPDX-License-Identifier: GPL-2.0-or-later
// The decision of a round, and the looks at it beforehand. See stages.h.
#include <algorithm>

#include "plugin/sched/round/stages.h"

namespace arena {
namespace {

/// Looks at what ready jobs would take, in one round: each is a decision of the policy.
constexpr std::size_t max_looks = 4;

/// Unless a job that gives it back still has some of it.
void keep_for(Round& round, const PlannedJob& planned, const Action& action) {
    std::vector<Taken>& taken = round.ahead.taken;
    for (std::size_t n = 0; n < action.nodes.size(); ++n) {
        const NodeIndex index = action.nodes[n];
        const std::int64_t left = round.view.snapshot.nodes[index].free_gpus - taken[index].gpus;
        if (left < action.offer.grid.gpus_on(n)) return;
    }
    const JobState& job = round.snapshot.jobs[planned.state];
    for (std::size_t at = 0; at < action.nodes.size(); ++at) {
        const NodeIndex index = action.nodes[at];
        const std::int64_t gpus = action.offer.grid.gpus_on(at);
        taken[index].gpus += gpus;
        const NodeParts parts = parts_of(round.view.snapshot.nodes, index);
        for (NodeIndex n = parts.first; n < parts.last; ++n) {
            taken[n].cpus += gpus * job.cpus_per_gpu;
            taken[n].memory_mb += gpus * job.memory_mb_per_gpu;
        }
    }
}

}  // namespace

std::vector<NodeState> free_nodes(const Round& round) {
    std::vector<NodeState> nodes = round.view.snapshot.nodes;
    for (const Round::Return& back : round.returns)
        give_to_node(nodes, back.node, back.gpus, back.cpus, back.memory_mb);
    return nodes;
}

void look_ahead(Round& round, const Policy& policy) {
    LookAhead& ahead = round.ahead;
    if (ahead.ready == ahead.seen || ahead.looks == max_looks) return;
    ahead.seen = ahead.ready;
    ++ahead.looks;
    round.snapshot.nodes = free_nodes(round);
    ahead.taken.assign(round.view.snapshot.nodes.size(), {});
    for (const Action& action : decide(round, policy).actions) {
        const auto at = round.planned.find(action.job);
        if (action.kind != ActionKind::start || at == round.planned.end()) continue;
        if (at->second.role == Role::waits && !at->second.view->ordinary_ahead())
            keep_for(round, at->second, action);
    }
}

Decision decide(const Round& round, const Policy& policy) {
    return policy.decide(round.snapshot, round.offers, round.options);
}

}  // namespace arena
