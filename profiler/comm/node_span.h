// SPDX-License-Identifier: GPL-2.0-or-later
// How far apart the nodes of a run lie, from what Slurm tells each task of its own node's place in
// the network (SLURM_TOPOLOGY_ADDR). Leaves out networks that Slurm does not know: --span says
// them.
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/comm/comm.h"
#include "profiler/comm/launcher.h"

namespace arena {

/// Sums of names, below 2^52; 0: not known.
struct NodePlace {
    std::int64_t leaf = 0;  ///< the path to the last switch, or the block
    std::int64_t pod = 0;  ///< the path above it; of a switch below none its own, of blocks all one
    bool is_block = false;
    bool operator==(const NodePlace&) const = default;
};

/// Of this task's node: "s0.s4.n1" with SLURM_TOPOLOGY_ADDR_PATTERN "switch.switch.node", "b8.n1"
/// with "block.node".
NodePlace place_of_node(const Lookup&);
/// Collective: of each node, as its tasks told.
std::vector<NodePlace> places_of_nodes(const CommWorld&, const NodePlace& own, Communicator&);
/// Of the first 1, 2, 3, ... nodes; empty where a place is not known. A block is one domain where
/// GPUs of several nodes can share one, else it is a leaf.
std::vector<CommSpan> spans_of_nodes(const std::vector<NodePlace>&, bool has_domains);

}  // namespace arena
