// SPDX-License-Identifier: GPL-2.0-or-later
// Which grids and which plans exist: GPU counts that fill nodes equally, stage counts,
// tensor-parallel degrees, micro-batches. Search and the operator list walk the same sets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/operators/operators.h"
#include "planner/plans/memory.h"
#include "planner/search/planner.h"

namespace arena {

/// A GPU count as equal nodes.
struct NodeShape {
    std::int64_t nodes = 1, gpus_per_node = 1;
    bool uneven = false;  ///< stands for every split of its GPUs over nodes that differ
    [[nodiscard]] std::int64_t gpus() const { return nodes * gpus_per_node; }
    auto operator<=>(const NodeShape&) const = default;
};

/// n GPUs on the least number of nodes that take equal shares of at most site_gpus_per_node.
NodeShape node_shape(std::int64_t gpus, std::int64_t site_gpus_per_node);

/// Counts worth offering, ascending: every count on one node; beyond, whole nodes, powers of two,
/// and the ends of the range; above 32 nodes about 16 counts per doubling. A pin keeps its
/// multiples and adds the first 64 of them. query.max_gpus <= 0: as many as the pool has.
std::vector<NodeShape> node_shapes(const PlanQuery&, const GpuPool&);

/// The same count with fewer GPUs on each of more nodes, up to pool.nodes; the fewest nodes first.
/// What finds room where some GPUs are free on many nodes.
std::vector<NodeShape> other_layouts(const PlanQuery&, const GpuPool&, const NodeShape&);

/// How the count is priced for nodes that give it different numbers of GPUs: as if none of them
/// shared a node, which is no faster. None where the query does not want it or no two nodes could
/// differ.
std::optional<NodeShape> uneven_layout(const PlanQuery&, const GpuPool&, std::int64_t gpus);
/// The split of a count that takes the fewest nodes of so many GPUs each.
std::vector<std::int64_t> fullest_split(std::int64_t gpus, std::int64_t site_gpus_per_node);

/// Whether the launcher can be told some partition of the layers into so many stages.
bool can_share_layers(const PlanQuery&, std::int64_t stages);
/// Stages for `gpus`: the divisors of gpus that the layers can be shared out to; or the pin.
std::vector<std::int64_t> stage_counts(const PlanQuery&, std::int64_t gpus);
/// Every degree up to a node that tp_fits(), or the pin. Convolutions are split only where the
/// launcher leaves the planner free to.
std::vector<std::int64_t> tp_degrees(const PlanQuery&, const GpuPool&);
/// Ascending; O(sqrt(n)).
std::vector<std::int64_t> divisors(std::int64_t n);
/// Divisors of the batch, ascending, or the pin.
std::vector<std::int64_t> micro_batch_sizes(const PlanQuery&);
/// All tp x micro-batch x cp x ep, tp outermost: cp and ep are the pin, else 1; where the launcher
/// leaves them free, all that divide the sequence and the experts, at most 64.
/// Sequence parallel wherever it can be, or as the pin says.
std::vector<ShardShape> shard_shapes(const PlanQuery&, const GpuPool&);
/// Chunks per stage, 1 first: the pin, else 1; where the launcher leaves them free, all divisors of
/// a stage's layers. More than 1 takes even stages and micro-batches that are a multiple of them;
/// so does any other schedule than 1F1B, with one chunk too.
std::vector<std::int64_t> vpp_counts(const PlanQuery&, std::int64_t stages,
                                     std::int64_t micro_batches);
/// The pin, or 1F1B.
Schedule schedule_of(const PlanQuery&);
/// Whether every backward is split. Then gradients of weights are computed apart, by one pass for
/// each weight, and PyTorch recomputes a layer for each pass (2.6: a layer of 4 weights runs 6
/// times, not 2). No price has that. Selective recompute, which was not counted, goes with it.
inline bool recomputes_for_weights(Schedule schedule) {
    return schedule == Schedule::zb_h1 || schedule == Schedule::zb_v;
}
/// What the launcher can be told: none, then selective, then full, and under schedules that would
/// recompute for each weight none; or the pin.
std::vector<Recompute> recompute_kinds(const PlanQuery&);
/// Of 0..3, those that the launcher can be told and the search may take; 0 alone without replicas,
/// which are dp * cp; or the pin, nothing where that wants replicas and there are none.
std::vector<std::int64_t> zero_stages(const PlanQuery&, std::int64_t stages, std::int64_t replicas);
/// Of these stages, partitioned evenly: what the launcher must be told.
PlanFacts facts_of(const Model&, const ShardShape&, const PlanChoice&);

/// Whether (grid, shard) is a plan at all; sets dp and the number of micro-batches.
struct Split {
    std::int64_t dp = 0, micro_batches = 0;  ///< 0 = not a plan
    [[nodiscard]] explicit operator bool() const { return micro_batches > 0; }
};
Split split_grid(const PlanQuery&, const NodeShape&, std::int64_t stages, const ShardShape&);

/// The plan whose stages are equal but for their layers.
Plan uniform_plan(const ShardShape&, const PlanChoice&, std::vector<std::int64_t> stage_layers);
/// Layers as even as a launcher can be told: equal, what is left over to the first stages; with
/// LayerSplit::ends from the first and the last stage. Wants 1 <= stages <= layers.
std::vector<std::int64_t> spread_layers(LayerSplit, std::int64_t layers, std::int64_t stages);

}  // namespace arena
