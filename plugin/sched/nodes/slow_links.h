// SPDX-License-Identifier: GPL-2.0-or-later
// Which node is at fault where links between nodes are slow. One slow link has two ends, and either
// may be the cause: both are suspects until a slow link to a third node tells which. Pure.
#pragma once

#include <utility>
#include <vector>

#include "core/cluster.h"

namespace arena {

using NodePair = std::pair<NodeIndex, NodeIndex>;  ///< the lower index first

/// A link between two nodes, and how many times slower than healthy it is.
struct SlowNodeLink {
    NodePair ends;
    double factor = 1;
};

struct LinkCulprits {
    std::vector<NodeIndex> nodes;  ///< at fault, ascending
    std::vector<NodePair> open;    ///< links of which nobody knows which end it is, ascending
};

/// A node is at fault that has slow links to at least two others, to more than each of these has
/// itself, and that are about as slow as each other: a link a little slow, as on a busy machine, is
/// no second witness to one that is a hundred times slow. The greatest evidence is taken first, and
/// what it explains is held against nobody else. Each pair is given once. O(links^2).
LinkCulprits find_link_culprits(std::vector<SlowNodeLink> links);

}  // namespace arena
