// SPDX-License-Identifier: GPL-2.0-or-later
// Partitions that another topology than the cluster's default places (topology.yaml of Slurm
// 25.05). Slurm tells the default's paths alone: of their own nodes Arena knows no network. Pure.
#pragma once

#include <vector>

#include "core/cluster.h"

namespace arena {

/// As Slurm's record of a partition says; older ones have no such field.
template <typename Partition>
bool has_other_topology([[maybe_unused]] const Partition* part) {
    if constexpr (requires { part->topology_idx; })
        return part->topology_idx != 0;
    else
        return false;
}

/// Nodes that only such partitions have: each partition adds its own.
class OtherNodes {
  public:
    explicit OtherNodes(std::size_t nodes) : of_others_(nodes), of_default_(nodes) {}
    void add(std::size_t node, bool has_other) {
        (has_other ? of_others_ : of_default_)[node] = true;
    }
    [[nodiscard]] bool has(std::size_t node) const {
        return of_others_[node] && !of_default_[node];
    }
    [[nodiscard]] bool empty() const {
        for (std::size_t n = 0; n < of_others_.size(); ++n)
            if (has(n)) return false;
        return true;
    }

  private:
    std::vector<bool> of_others_, of_default_;
};

/// Index of what a node hangs on whose network is not known, in a tree a switch by itself, which is
/// added; in a block's place none.
inline std::int32_t add_unknown_leaf(Snapshot& snapshot) {
    if (snapshot.topology != NetworkKind::tree) return -1;
    snapshot.switches.push_back({.name = "another topology"});
    return static_cast<std::int32_t>(snapshot.switches.size()) - 1;
}

}  // namespace arena
