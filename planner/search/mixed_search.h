// SPDX-License-Identifier: GPL-2.0-or-later
// The best plan of a grid among those whose stages differ in dp and tp: a dynamic program over
// stages, layers and GPUs, for every number of micro-batches, recompute choice and optimizer
// sharding. Partial plans are kept as in partition.h. What the stages after one can at best do is
// known beforehand, from a program over layers and GPUs alone that leaves out transfers and
// gradient exchange: it ends most partial plans at once (after Piper's bound, which is per GPU).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "planner/search/grids.h"
#include "planner/search/mixed.h"

namespace arena {

class MixedSearch {
  public:
    MixedSearch(const PlanQuery&, const PoolContext&, PlanBudget&);
    /// Whether search() leaves the grid, which can have mixed stages, out for its size:
    /// mixed_stages_bound().
    [[nodiscard]] bool is_too_large(const Grid&) const;
    /// The best plan of the grid if one takes less than limit_s (infinite: any); false if none.
    /// Exact but for settings with more than max_partial_plans below the limit, which are left
    /// out; limits are widened from the best conceivable plan, which leaves tens. False, too, where
    /// the grid is_too_large().
    bool search(const Grid&, double limit_s, Plan&, Estimate&);
    /// No plan of the settings that the latest search() left out takes less; infinite: none was.
    [[nodiscard]] double left_out_s() const { return left_out_s_; }
    /// Whether the budget was spent before the latest search() had looked at all.
    [[nodiscard]] bool cut_short() const { return cut_short_; }

  private:
    /// Counts steps; whether the search is to end.
    bool spends(std::int64_t steps) {
        const bool spent = budget_.poll(steps);
        cut_short_ = cut_short_ || spent;
        return spent;
    }
    [[nodiscard]] bool can_be_mixed(const Grid&) const;
    [[nodiscard]] bool has_memory(const Grid&);
    /// A way to fill GPUs with one stage, layers aside.
    struct Option {
        std::int64_t gpus, dp, tp;
        const Shard* shard;
    };
    /// What all stages share.
    struct Setting {
        std::int64_t micro_batches = 1, zero_stage = 0;
        Recompute recompute = Recompute::none;
        double least_s = 0;  ///< no plan takes less
    };
    /// The first stages of a plan.
    struct Label {
        std::int64_t layers = 0, gpus = 0;  ///< that they use
        PipelineLength pipeline;
        double exchange_s = 0, step_s = 0, host_s = 0, fixed_s = 0;
        double sent_bytes = 0, sent_s = 0;  ///< by the last of them, per rank
        double boundary_s = 0;              ///< of the last of them
        std::uint32_t parent = 0, option = 0;
        [[nodiscard]] bool beats(const Label&) const;
        [[nodiscard]] double ends_s() const { return exchange_s + step_s + host_s + fixed_s; }
    };
    /// What the stages from one on can at best do with the GPUs and layers that are left.
    struct Rest {
        double sum_s, length_s;  ///< infinite: they cannot hold them
    };
    struct Found {
        double seconds;
        Plan plan;
    };

    void list_options(const Setting&);
    void list_capacities(const Setting&, double limit_s);
    /// Layers from `begin` on that the stage can hold; of homogeneous layers whatever begin is.
    [[nodiscard]] std::int64_t capacity(std::int64_t stage, std::size_t option,
                                        std::int64_t begin) const {
        const std::size_t at = static_cast<std::size_t>(stage) * options_.size() + option;
        return capacities_[is_homogeneous_ ? at : at * begins_ + static_cast<std::size_t>(begin)];
    }
    [[nodiscard]] std::int64_t capacity_from(const Setting&, std::int64_t stage, const Option&,
                                             std::int64_t begin, std::int64_t least,
                                             double limit_s);
    bool list_held();
    [[nodiscard]] std::int64_t& held(std::int64_t stage, std::int64_t first_gpu);
    void list_rests(const Setting&);
    void list_rest(const Setting&, std::int64_t stage, std::int64_t first_gpu);
    [[nodiscard]] Rest& rest(std::int64_t stage, std::int64_t first_gpu, std::int64_t layers);
    [[nodiscard]] bool can_stand(std::int64_t stage, std::int64_t first_gpu,
                                 std::int64_t gpus) const;
    [[nodiscard]] double ends_s(std::int64_t stage, const Shard&) const;
    [[nodiscard]] PlanChoice choice(const Setting&, const Option&) const;
    [[nodiscard]] double ideal_s(const Setting&);
    double bound_s(const Setting&, double limit_s);
    std::vector<Setting> settings_below(double limit_s);
    void search_below(double limit_s, Found&);
    bool solve(const Setting&, double limit_s, Found&);
    void set_boundary(Label&, const Label& parent, const Option&, LayerRange) const;
    void extend(const Setting&, std::int64_t stage, std::uint32_t from, double limit_s);
    /// A stage without transfers. Of layers alike remembered by their number: of the same option
    /// only the ends of a pipeline differ.
    StagePart part(const Setting&, std::int64_t stage, std::uint32_t option, LayerRange);
    void keep_best(std::size_t begin);
    [[nodiscard]] Plan to_plan(const Setting&, std::uint32_t label) const;

    const PlanQuery& query_;
    const PoolContext& context_;
    PlanBudget& budget_;
    bool cut_short_ = false;
    ShardBook shards_;
    Grid grid_;
    Topology topology_;
    std::vector<Option> options_;
    bool is_homogeneous_ = true;            ///< all layers cost the same
    double bound_ = 0;                      ///< mixed_stages_bound()
    std::size_t begins_ = 0;                ///< first layers that a stage may have
    std::vector<std::int64_t> capacities_;  ///< layers, by stage, option and first layer
    std::vector<std::int64_t>
        held_;  ///< layers before a stage and a GPU, at most; -1: no way there
    std::vector<Rest> rests_;
    std::vector<StagePart> parts_;
    std::vector<char> has_part_;
    std::vector<Label> labels_;
    double left_out_s_ = std::numeric_limits<double>::infinity();
};

}  // namespace arena
