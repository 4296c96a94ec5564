// SPDX-License-Identifier: GPL-2.0-or-later
// Plans whose stages differ in data and tensor parallelism, as Alpa's inter-operator pass makes
// them: a dynamic program from the last stage to the first over layers and GPUs, for every number
// of micro-batches, recompute choice and optimizer sharding. All stages see the same micro-batch; a
// stage of dp replicas splits it into dp. A stage of fewer GPUs than a node divides the node and
// does not straddle two; a larger one takes whole nodes. Not here: interleaving, cp, ep.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/result.h"
#include "planner/grids.h"
#include "planner/planner.h"
#include "planner/shard.h"

namespace arena {

inline constexpr std::size_t max_labels = 200'000;

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
/// Seconds and bytes of a mixed plan that check_mixed() accepts. Of a uniform plan: as
/// price_stages(). Source and error bound are those of the slowest stage.
Estimate price_mixed(const PoolContext&, const Topology&, ShardBook&, const Plan&);

/// Searches the mixed plans of grids of one pool.
class MixedSearch {
  public:
    MixedSearch(const PlanQuery&, const PoolContext&);
    /// The best plan of the grid if one takes less than limit_s (infinite: any); false if none.
    /// Exact but for settings with more than max_labels partial plans below the limit, which are
    /// left out; a limit near the best uniform plan leaves hundreds.
    bool search(const Grid&, double limit_s, Plan&, Estimate&);

  private:
    /// A way to fill GPUs with one stage, layers aside.
    struct Option {
        std::int64_t gpus, dp, tp;
        const Shard* shard;
        double layer_s;
    };
    /// What all stages share.
    struct Setting {
        std::int64_t micro_batches = 1, zero_stage = 0;
        Recompute recompute = Recompute::none;
    };
    /// The stages behind some layer and some GPU.
    struct Label {
        std::int64_t layers, gpus;  ///< that they use
        double sum_s, pass_s, exchange_s, step_s, host_s;
        double arriving_bytes;  ///< per rank, into the first of them
        std::uint32_t parent, option;
    };
    struct Found {
        double seconds;
        Plan plan;
    };

    void list_options(const Grid&, const Setting&);
    [[nodiscard]] bool holds_a_layer(const Grid&, const Setting&, const Shard&,
                                     std::int64_t dp) const;
    double least_s(const Grid&, const Setting&);
    void search_below(const Grid&, double limit_s, Found&);
    bool solve(const Grid&, const Setting&, double limit_s, Found&);
    void extend(const Grid&, const Setting&, std::int64_t stage, std::uint32_t from,
                double limit_s);
    void keep_best(std::size_t begin);
    [[nodiscard]] double floor_s(const Label&, std::int64_t gpus, std::int64_t stages_before) const;
    [[nodiscard]] Plan to_plan(const Setting&, std::int64_t stages, std::uint32_t label) const;

    const PlanQuery& query_;
    const PoolContext& context_;
    ShardBook shards_;
    Topology topology_;
    std::vector<Option> options_;
    std::vector<Label> labels_;
    std::vector<std::int64_t> scratch_;
    std::int64_t nodes_ = 1, gpus_per_node_ = 1;
    double least_gpu_s_ = 0, fixed_s_ = 0, pass_weight_ = 0;
};

}  // namespace arena
