// SPDX-License-Identifier: GPL-2.0-or-later
// The plans of one grid, exhaustively: every tensor-parallel degree, micro-batch, recompute choice
// and optimizer sharding, layers dealt under each stage's memory. No allocation per plan; a plan
// that cannot beat the best found, even with perfectly balanced stages, is not priced.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "planner/grids.h"
#include "planner/planner.h"
#include "planner/shard.h"

namespace arena {

/// One pool's search: shards are made once per (tp, micro_batch) and reused by every grid of the
/// pool.
class PoolSearch {
  public:
    PoolSearch(const PlanQuery&, const GpuPool&, Precision effective);
    /// Best plan of the grid, or feasible = false with the reason.
    GridResult search(const NodeShape&, std::int64_t stages);
    /// (tp, micro_batch) pairs that fit memory in some grid of the query: what search() would
    /// price.
    std::vector<ShardShape> fitting_shapes();

  private:
    struct Best {
        double iteration_s = std::numeric_limits<double>::infinity();
        Estimate estimate;
        PlanChoice choice;
        ShardShape shape;
        std::vector<std::int64_t> stage_layers;
        bool any_split = false;
        double least_bytes = std::numeric_limits<double>::infinity();  ///< of plans that do not fit
    };

    Shard& shard(std::size_t tp_index, std::size_t mb_index);
    void try_plan(const Topology&, const Shard&, const PlanChoice&, Best&);
    /// Most layers per stage into capacity_; false and the bytes wanted when they do not add up.
    bool fill_capacity(const MemoryModel&, const PlanChoice&, double& wanted_bytes);
    double lower_bound_s(const Shard&, const PlanChoice&) const;
    bool fits_anywhere(const MemoryModel&, std::int64_t tp, std::int64_t micro_batch);
    [[nodiscard]] std::string reason(const NodeShape&, std::int64_t stages, const Best&) const;

    const PlanQuery& query_;
    const GpuPool& pool_;
    PoolContext context_;
    std::vector<std::int64_t> tp_degrees_, micro_batches_;
    std::vector<std::unique_ptr<Shard>> shards_;
    std::vector<std::int64_t> capacity_, layers_;
    std::vector<double> stage_s_;
};

}  // namespace arena
