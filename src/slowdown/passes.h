// SPDX-License-Identifier: GPL-2.0-or-later
// In how few passes every link of a communicator is measured with no rank in two transfers at
// once: a rank that sends while it receives measures two links as one. The number of passes does
// not grow with the ranks (Greyhound, ATC'25; 6 for trees, whose ranks may have three children).
#pragma once

#include <span>
#include <vector>

#include "base/result.h"

namespace arena::slowdown {

/// One measured link, from the rank that sends to the one that receives.
struct Transfer {
    int from = 0;
    int to = 0;
    auto operator<=>(const Transfer&) const = default;
};
/// Transfers that run at the same time; no rank is in two of them.
using Pass = std::vector<Transfer>;

/// The links order[i] -> order[i + 1] and last -> first, each once, of different ranks: 2 passes,
/// 3 of an odd number; none of fewer than two ranks. O(n).
std::vector<Pass> ring_passes(std::span<const int> order);

inline constexpr int most_children = 3;  ///< of a rank in a tree of NCCL

/// The links parent -> child of a tree, each once: parent[r] of each rank r, -1 of the root. At
/// most 6 passes, by the child's place among its siblings and the level of the parent; empty ones
/// are left out. Errors: not exactly one root, a parent that is no rank, a circle, more than
/// most_children. O(n).
Result<std::vector<Pass>> tree_passes(std::span<const int> parent);

}  // namespace arena::slowdown
