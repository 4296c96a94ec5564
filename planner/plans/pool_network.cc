// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/plans/pool_network.h"

#include <algorithm>

namespace arena {

std::int64_t PoolNetwork::most_of(const Counts& counts) {
    std::int64_t most = 0;
    for (const auto& [key, count] : counts) most = std::max(most, count);
    return most;
}

void PoolNetwork::count(const Snapshot& snapshot, const NodeState& node) {
    if (node.leaf < 0) return;
    const std::int32_t above = snapshot.switches[static_cast<std::size_t>(node.leaf)].above;
    if (of_leaf_[node.leaf]++ > 0 && node.leaf != last_leaf_) alternates_ = true;
    last_leaf_ = node.leaf;
    ++of_pod_[above < 0 ? -1 - node.leaf : above];
}

}  // namespace arena
