// SPDX-License-Identifier: GPL-2.0-or-later
// Plans whose stages differ in data and tensor parallelism, as Alpa's inter-operator pass makes
// them: what they are and what they cost. All stages see the same micro-batch; a stage of dp
// replicas splits it into dp. A stage of fewer GPUs than a node divides the node and does not
// straddle two; a larger one takes whole nodes. A stage pays for what its ranks send; where the
// next stage's ranks take more at once, that stage pays for the rest. Not here: interleaving, cp,
// ep. Their search is in mixed_search.h.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/result.h"
#include "planner/plans/shard.h"
#include "planner/search/partition.h"

namespace arena {

/// Shards of one pool by (tp, micro-batch of a rank).
class ShardBook {
  public:
    ShardBook(const PoolContext&, bool sequence_parallel);
    const Shard& get(std::int64_t tp, std::int64_t micro_batch);

  private:
    const PoolContext& context_;
    bool sequence_parallel_;
    std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<Shard>> shards_;
};

/// Whether stages differ in dp or tp.
bool is_mixed(const Plan&);
/// Why a plan with mixed stages cannot be laid out on nodes of so many GPUs, or splits its
/// micro-batch unevenly; nothing when it can.
Status check_mixed(const Plan&, std::int64_t gpus_per_node);
/// Whether `gpus` from first_gpu on fill whole nodes, or an aligned part of one.
bool is_aligned(std::int64_t first_gpu, std::int64_t gpus, std::int64_t gpus_per_node);
/// Both directions of what each rank hands to the next stage, which begins at end_gpu.
double hand_over_s(const PoolContext&, const Topology&, std::int64_t end_gpu, double bytes);
/// What a stage spends on its boundaries: what it sends, longer where it receives more than the
/// stage before sends per rank, and where the framework blocks (blocking_boundary) all that it
/// receives.
double mixed_boundary_s(const FrameworkConstants&, double sent_s, double received_s,
                        double sent_before_s);
/// Stage `index` without transfers.
StagePart lone_part(const PoolContext&, const Topology&, const Shard&, const PlanChoice&,
                    std::int64_t index, LayerRange);
/// Seconds and bytes of a mixed plan that check_mixed() accepts. Of a uniform plan: as
/// price_stages(). Source and error bound are those of the slowest stage.
Estimate price_mixed(const PoolContext&, const Topology&, ShardBook&, const Plan&);

}  // namespace arena
