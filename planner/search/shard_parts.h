// SPDX-License-Identifier: GPL-2.0-or-later
// The stages of one candidate of the search as the partition program (partition.h) asks for them:
// what a stage takes with these layers, and bounds on what those after it take. Where all layers
// are homogeneous only their number matters, and each stage is priced once for each number.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/plans/iteration.h"
#include "planner/plans/shard.h"
#include "planner/search/partition.h"
#include "request/launchers.h"

namespace arena {

/// Tables of one candidate have at most so many rows: 50 MB.
inline constexpr std::int64_t max_part_rows = 1 << 19;

inline constexpr double below_bounds = 1 - 1e-12;  ///< gives rounding away

/// What the partitions of one candidate share; kept between candidates for its memory.
struct PartBuffers {
    struct Part {
        StagePart part;
        std::uint64_t candidate = 0;  ///< for which it was priced
    };
    std::uint64_t candidate = 0;  ///< how many there were
    std::vector<Part> parts;      ///< of homogeneous layers, by stage and number; none of too many
    std::vector<double> rest_s;   ///< of the layers from each one on
    std::vector<double> longest_s;  ///< of layers that differ, by stage and first: see StageParts
    std::vector<double> extra_s;    ///< by stage: what it and those after it take besides layers
};

/// Keeps references to everything it is made from.
class ShardParts final : public StageParts {
  public:
    ShardParts(const PoolContext&, const Topology&, const Shard&, const PlanChoice&, PartBuffers&);

    [[nodiscard]] StagePart part(std::int64_t stage, std::int64_t begin,
                                 std::int64_t end) const override;
    [[nodiscard]] double rest_s(std::int64_t stage, std::int64_t begin) const override;
    [[nodiscard]] double longest_s(std::int64_t stage, std::int64_t begin) const override;
    [[nodiscard]] double last_s() const override { return last_s_; }
    [[nodiscard]] bool sends_same() const override { return shard_.is_homogeneous(); }
    /// Fills what longest_s() answers of heterogeneous layers, unless the budget is spent before.
    /// O(stages layers log(layers)).
    void find_longest(PlanBudget&);
    /// longest_s() answers 0, for lack of time.
    void forget_longest() { buffers_.longest_s.clear(); }
    [[nodiscard]] PartitionProblem problem(LayerSplit) const;

  private:
    [[nodiscard]] bool remembers_parts() const {
        return shard_.is_homogeneous() &&
               choice_.stages * (context_.model.layers + 1) <= max_part_rows;
    }
    [[nodiscard]] double longest_homogeneous_s(std::int64_t stage, std::int64_t layers) const;
    [[nodiscard]] double& longest(std::int64_t stage, std::int64_t begin) const;
    [[nodiscard]] double best_cut_s(std::int64_t stage, std::int64_t begin) const;

    const PoolContext& context_;
    const Shard& shard_;
    const PlanChoice& choice_;
    Iteration iteration_;
    PartBuffers& buffers_;
    double layer_s_ = 0;  ///< of homogeneous layers
    double last_s_ = 0;
    double least_extra_s_ = std::numeric_limits<double>::infinity();  ///< of stages but the last
};

}  // namespace arena
