// SPDX-License-Identifier: GPL-2.0-or-later
// S3: which node has which place of the (data parallel x pipeline) grid. A slow
// link is moved to where little or nothing flows; slow GPUs are consolidated in as few stages as
// hold them. The paper has no search; this one tries every swap, then every pair of swaps (one is
// not always enough), and goes on from the best while that helps. A node here is what moves as one:
// a tensor-parallel group.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"

namespace arena::slowdown {

inline constexpr std::size_t most_grid_nodes = 4096;

/// Place (d, p) of the grid is index d x stages + p: replica d, stage p. Amounts per iteration;
/// units that agree: with GB and GB/s a cost is in seconds.
struct RoleGrid {
    std::size_t replicas = 1;  ///< D
    std::size_t stages = 1;    ///< P
    double gradient = 0;       ///< G, all-reduced around the ring of each stage; >= 0
    double activation = 0;     ///< A of one micro-batch between two stages, and back; >= 0
    double micro_batches = 1;  ///< m of a replica; >= 0
    /// What a node must receive that comes to stage p: parameters and moments. Empty: 1 of each.
    std::vector<double> state = {};
    /// Replicas hold the same state: a move within a stage copies nothing. False where moments or
    /// parameters are sharded over the replicas.
    bool same_state_in_stage = false;
    [[nodiscard]] std::size_t nodes() const { return replicas * stages; }
};

/// A message of b takes latency + b / bandwidth.
struct LinkSpeed {
    double bandwidth = 1;  ///< > 0
    double latency = 0;    ///< >= 0, in what an amount over a bandwidth is
};

/// Speed between any two nodes, the same in both directions.
class LinkTable {
  public:
    explicit LinkTable(std::size_t nodes, double bandwidth = 1)
        : nodes_(nodes), speeds_(nodes * nodes, LinkSpeed{bandwidth}) {}
    void set(std::size_t a, std::size_t b, const LinkSpeed& speed) {
        speeds_[a * nodes_ + b] = speeds_[b * nodes_ + a] = speed;
    }
    [[nodiscard]] const LinkSpeed& at(std::size_t a, std::size_t b) const {
        return speeds_[a * nodes_ + b];
    }
    [[nodiscard]] std::size_t nodes() const { return nodes_; }
    /// The greatest bandwidth and the least latency of two different nodes; bandwidth 0 of fewer
    /// than two.
    [[nodiscard]] LinkSpeed fastest() const;

  private:
    std::size_t nodes_;
    std::vector<LinkSpeed> speeds_;
};

/// The node at each place.
using Placement = std::vector<std::size_t>;

/// What communication costs an iteration: max over stages of the slowest link of its ring, 2 (D -
/// 1) messages of G / D each, + max over replicas of the sum along its chain, 2 m messages of A.
/// `at`: a permutation of 0 .. nodes - 1. O(nodes).
double communication_cost(const RoleGrid& grid, const LinkTable& links, const Placement& at);

/// What goes over the network for a move from one placement to another, in the unit of
/// RoleGrid::state.
double moved_state(const RoleGrid& grid, const Placement& from, const Placement& to);

struct PlacedRoles {
    Placement at;
    double cost = 0;   ///< communication_cost()
    double moved = 0;  ///< moved_state()
};

/// The least cost that swaps of two places reach from `now`; of equal ones found the least moved
/// state, then the fewest moved nodes. `now` itself where nothing is better. Never above the best
/// pair of swaps while those are within a million (8 x 10 nodes); above it, those that begin best.
/// A swap that touches no end of what is slowest cannot lower the cost: only those that do are
/// tried. Many equal bottlenecks are taken away one by one. Errors: sizes that disagree, `now` no
/// permutation, amounts or bandwidths out of range.
Result<PlacedRoles> place_roles(const RoleGrid& grid, const LinkTable& links, const Placement& now);

/// Consolidates slow nodes in ceil(slow / replicas) stages: one slow member slows its whole stage
/// already. Inner stages before the first and the last, which have embedding and head to work on;
/// of those the ones with most slow nodes. Each slow node changes places with a healthy one where
/// that costs least communication, then moves least, then in its own replica. `now` itself where
/// the slow nodes are in so few stages already. Errors: as place_roles(); a slow node that is no
/// node, or twice.
Result<PlacedRoles> consolidate_slow_nodes(const RoleGrid& grid, const LinkTable& links,
                                           const Placement& now, std::span<const std::size_t> slow);

}  // namespace arena::slowdown
