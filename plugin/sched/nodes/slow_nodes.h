// SPDX-License-Identifier: GPL-2.0-or-later
// What the facts of all nodes come to: which nodes are slow for everybody, which for the jobs of
// one user alone, and which pairs of nodes have a slow link of which nobody knows the slow end.
// Pure; how many of them may be kept from jobs is NodeBook's.
#pragma once

#include <map>
#include <vector>

#include "plugin/sched/nodes/slow_fact.h"
#include "plugin/sched/nodes/slow_links.h"

namespace arena {

struct SlowPair {
    NodePair ends;
    bool trusted = false;
};

struct SlowNodes {
    std::vector<Suspect> confirmed;   ///< for everybody, by index
    std::vector<SlowPair> pairs;      ///< the same
    std::vector<NodePair> open;       ///< pairs, whoever says so
    std::vector<NodeIndex> linked;    ///< ascending: nothing but such links is said of them
    std::vector<NodeIndex> innocent;  ///< ascending: another node explains all that is said of them
    struct Own {
        std::vector<NodeIndex> nodes;  ///< ascending
        std::vector<NodePair> pairs;
    };
    /// By user: what his own jobs confirm, and others need not believe.
    std::map<std::uint32_t, Own> own;
};

using FactsByNode = std::map<NodeIndex, const std::vector<SlowFact>*>;

/// Nodes go by their names in `nodes`; a link to one that is not there says nothing.
SlowNodes judge_slow_nodes(const FactsByNode& facts, const std::vector<NodeState>& nodes,
                           const SlowdownRules& rules);

}  // namespace arena
