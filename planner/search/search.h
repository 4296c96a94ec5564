// SPDX-License-Identifier: GPL-2.0-or-later
// The plans of one grid, exhaustively: every tensor-parallel degree, micro-batch, context and
// expert degree, interleaving, recompute choice and optimizer sharding that the job's launcher can
// be told, layers partitioned exactly under each stage's memory. Candidates are taken by their
// lower bound, so that what cannot beat the best found, even with perfectly balanced stages, is not
// partitioned and not priced.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "planner/plans/shard.h"
#include "planner/search/budget.h"
#include "planner/search/candidate_layers.h"
#include "planner/search/grids.h"
#include "planner/search/planner.h"

namespace arena {

/// Candidates that one PoolSearch looks at; beyond it search() says that it did not. Two seconds.
inline constexpr std::int64_t max_candidates = 4'000'000;

/// Why a grid has no plan whose budget was spent before one was found.
inline constexpr const char* nothing_found_in_time =
    "search: left out: no plan was found before the planning budget was spent";

/// One pool's search: shards are made once per shape and reused by every grid of the pool.
class PoolSearch {
  public:
    PoolSearch(const PlanQuery&, const PoolContext&, PlanBudget&);
    PoolSearch(const PoolSearch&) = delete;
    PoolSearch& operator=(const PoolSearch&) = delete;
    /// Best plan of the grid, or feasible = false with the reason; of those looked at when the
    /// budget is spent (GridResult::in_part).
    GridResult search(const NodeShape&, std::int64_t stages);
    /// The plans of the grid that no other plan of it beats in both seconds and bytes, fastest
    /// first; each candidate with its fastest partition of layers.
    std::vector<GridResult> pareto(const NodeShape&, std::int64_t stages);
    /// Shards that fit memory in some grid of the query, of degrees and micro-batches (to 128) that
    /// are pinned or powers of two: what is worth measuring; others follow from these.
    std::vector<ShardShape> fitting_shapes();
    /// Whether any shard fits memory in some grid of the query; false where the budget ends first.
    bool fits_somewhere();
    /// The fastest partition of layers for this plan without interleaving; false when none fits.
    bool partition_fixed(const NodeShape&, const ShardShape&, const PlanChoice&,
                         std::vector<std::int64_t>& stage_layers);
    [[nodiscard]] const PoolContext& context() const { return context_; }
    /// Candidates looked at so far.
    [[nodiscard]] std::int64_t candidates() const { return candidates_seen_; }
    /// Of max_partition_steps.
    [[nodiscard]] std::int64_t partition_steps_left() const { return layers_.steps_left(); }

  private:
    /// A plan but for its layers.
    struct Candidate {
        double bound_s;
        std::uint32_t shard;
        PlanChoice choice;
    };
    struct Best {
        double iteration_s = std::numeric_limits<double>::infinity();
        Estimate estimate;
        PlanChoice choice;
        ShardShape shape;
        std::vector<std::int64_t> stage_layers;
        double least_bytes = std::numeric_limits<double>::infinity();  ///< of plans that do not fit
    };

    /// A shard, and the nodes that it was made for.
    struct PricedShard {
        std::unique_ptr<Shard> shard;
        NodeShape nodes;
    };

    Shard& shard(std::size_t index, const NodeShape&);
    /// Fills open_; bounds are for search(), which takes the least first. Where time or memory does
    /// not do for all of them, those of the first shapes.
    void list_candidates(const NodeShape&, std::int64_t stages);
    bool can_be_told(const ShardShape&, const PlanChoice&);
    void list_candidates_of(std::uint32_t shape, const NodeShape&, std::int64_t stages);
    [[nodiscard]] bool has_memory_for(std::size_t shape);
    /// Partitions the layers and prices; false when it does not fit or takes limit_s or longer.
    bool try_candidate(const Topology&, const Candidate&, double limit_s, Best&);
    [[nodiscard]] double least_bytes(const Candidate&) const;
    [[nodiscard]] double lower_bound_s(const Shard&, const PlanChoice&) const;
    bool fits_anywhere(const ShardShape&);
    [[nodiscard]] Topology topology_of(const NodeShape&, std::int64_t stages) const;
    [[nodiscard]] GridResult left_out(const NodeShape&, std::int64_t stages) const;
    [[nodiscard]] GridResult result(const NodeShape&, std::int64_t stages, const Best&) const;

    const PlanQuery& query_;
    const GpuPool& pool_;
    SearchSteps steps_;                ///< of this search() or pareto()
    std::optional<PlanFacts> untold_;  ///< of the grid: the first that the launcher cannot be told
    bool lost_shapes_ = false;         ///< shapes_ lacks some that nobody has looked at
    PoolContext context_;
    std::vector<ShardShape> shapes_;
    std::vector<Recompute> recomputes_;
    std::vector<PricedShard> shards_;
    std::vector<Candidate> open_;
    CandidateLayers layers_;
    std::int64_t candidates_seen_ = 0;
    std::size_t shard_bytes_ = 0;
};

/// Keeps the feasible results that none beats in both seconds and bytes, fastest first.
void keep_pareto(std::vector<GridResult>&);

}  // namespace arena
