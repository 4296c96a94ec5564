// SPDX-License-Identifier: GPL-2.0-or-later
// What the planner knows of the network below the nodes of a pool: how many of them lie together.
// Of a site's nodes, as Slurm has them, and of a simulated cluster's alike.
#pragma once

#include <cstdint>
#include <map>

#include "core/cluster.h"

namespace arena {

/// Nodes of a GPU type by what they hang on.
class PoolNetwork {
  public:
    /// Of nodes in the order of ranks, which is Slurm's. Those that hang on nothing do not count.
    void count(const Snapshot&, const NodeState&);
    /// Into a pool's leaf_nodes and, by the kind of network, pod_nodes or domain_nodes and
    /// domains_alternate, as GpuPool has them. Blocks are NVLink domains: that is what
    /// topology/block is for. A flat network leaves the pool as it is.
    template <typename Pool>
    void tell(NetworkKind kind, Pool& pool) const {
        if (kind == NetworkKind::flat) return;
        pool.leaf_nodes = most_of(of_leaf_);
        if (kind == NetworkKind::block) {
            pool.domain_nodes = pool.leaf_nodes;
            pool.domains_alternate = alternates_;
        } else {
            pool.pod_nodes = most_of(of_pod_);
        }
    }

  private:
    using Counts = std::map<std::int32_t, std::int64_t>;
    static std::int64_t most_of(const Counts&);

    Counts of_leaf_, of_pod_;
    std::int32_t last_leaf_ = -1;
    bool alternates_ = false;  ///< a leaf's nodes do not follow each other
};

}  // namespace arena
