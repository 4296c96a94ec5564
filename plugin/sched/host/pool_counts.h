// SPDX-License-Identifier: GPL-2.0-or-later
// How many nodes and GPUs of each type there are, and how many of them are free, down, lent or
// slow: what is shown of a cluster in one line per type.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/cluster.h"

namespace arena {

struct PoolCount {
    std::int64_t nodes = 0, slow_nodes = 0;
    std::int64_t gpus = 0, free = 0;
    std::int64_t down = 0;  ///< GPUs of nodes that take no jobs
    std::int64_t lent = 0;  ///< GPUs
};

/// By GPU type; nodes without GPUs are left out.
inline std::map<std::string, PoolCount> count_pools(const Snapshot& snapshot) {
    std::map<std::string, PoolCount> pools;
    for (const NodeState& node : snapshot.nodes) {
        if (node.total_gpus == 0) continue;
        PoolCount& pool = pools[node.gpu_type];
        ++pool.nodes;
        pool.slow_nodes += node.slow > 1;
        pool.gpus += node.total_gpus;
        pool.free += node.free_gpus;
        pool.down += node.up ? 0 : node.total_gpus;
        pool.lent += node.lent.empty() ? 0 : node.total_gpus;
    }
    return pools;
}

}  // namespace arena
