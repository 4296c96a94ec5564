// SPDX-License-Identifier: GPL-2.0-or-later
// The layers of one candidate of the search: whether its stages can hold them, and their fastest
// partition. Equal layers and those of a launcher that wants even stages are quick; of others the
// partition with the shortest longest stage is a tight limit for the exact program (partition.h).
#pragma once

#include <cstdint>
#include <vector>

#include "planner/plans/shard.h"
#include "planner/search/budget.h"
#include "planner/search/partition.h"
#include "planner/search/query.h"
#include "planner/search/shard_parts.h"

namespace arena {

/// Steps of partitioning layers (partition.h) in one PoolSearch; beyond them, as in a solve() of
/// more than max_solve_steps, the evenest partition stands for the best one. Only thousands of
/// layers get there. Five seconds.
inline constexpr std::int64_t max_partition_steps = 1 << 25;

/// A budget, and whether it cut short what is looked at now.
struct SearchSteps {
    PlanBudget& budget;
    bool cut_short = false;
    /// Counts steps; whether the search is to end.
    bool spend(std::int64_t steps) {
        const bool spent = budget.poll(steps);
        cut_short = cut_short || spent;
        return spent;
    }
};

/// Keeps references to everything it is made from, and its memory between candidates.
class CandidateLayers {
  public:
    CandidateLayers(const PlanQuery&, const PoolContext&, SearchSteps&);
    /// Whether the layers fit at all; the bytes that even stages want.
    bool fit(const MemoryModel&, const PlanChoice&, double& wanted_bytes);
    /// The fastest partition below limit_s of layers that fit; false when there is none.
    bool partition(const Topology&, const Shard&, const PlanChoice&, double limit_s);
    /// What partition() found.
    [[nodiscard]] const std::vector<std::int64_t>& of_stages() const { return layers_; }
    /// Of max_partition_steps.
    [[nodiscard]] std::int64_t steps_left() const { return solver_.steps_left(); }

  private:
    bool partition_evenly(const PartitionProblem&, const ShardParts&, double limit_s);
    bool balance(const Shard&, const PlanChoice&);

    const PlanQuery& query_;
    const PoolContext& context_;
    SearchSteps& steps_;
    PartitionSolver solver_;
    std::vector<std::int64_t> layers_, capacity_;
    PartBuffers buffers_;
};

}  // namespace arena
