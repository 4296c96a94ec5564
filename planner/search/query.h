// SPDX-License-Identifier: GPL-2.0-or-later
// What the search is asked, and what it finds of each grid.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model.h"
#include "core/offer.h"
#include "planner/plans/pool.h"
#include "request/launchers.h"

namespace arena {

struct PlanQuery {
    Model model;
    std::int64_t global_batch = 1;  ///< samples per iteration
    std::int64_t min_gpus = 1;
    std::int64_t max_gpus = 1;  ///< <= 0: as many as each pool has
    PlanPin pin = {};           ///< zero fields are free
    std::vector<GpuPool> pools = {};
    Capabilities can = {};  ///< of the job's launcher: which plans may stand for a grid
    /// A count is planned on nodes that give it different numbers of GPUs, too: where its plan is
    /// data parallel only, and the pool's nodes are known.
    bool uneven = false;
    /// Of a setting (micro-batches, recompute, ZeRO) with more plans than this of its first stages
    /// that may become the best of mixed stages, none is looked at.
    std::int64_t max_partial_plans = 200'000;
};

struct GridResult {
    Grid grid;
    bool feasible = false;
    std::string reason = {};      ///< why infeasible: memory, batch, layers, heads
    Plan plan = {};               ///< proxy plan when feasible
    Estimate estimate = {};       ///< on nodes that lie as close together as so many can
    SpanFactors slower = {1, 1};  ///< as Offer has it
    std::int64_t segment = 1;     ///< likewise
    std::int64_t candidates = 0;  ///< plans of the grid, counted before layers are partitioned
    /// The launcher can be told stages that differ in dp and tp, but the grid is beyond
    /// mixed_stages_bound(): only uniform stages were looked at.
    bool uniform_only = false;
    /// Of stages that differ in dp and tp some were not looked at: a setting that may have a better
    /// plan than all found has more than max_partial_plans.
    bool mixed_in_part = false;
    /// The budget was spent before all plans of the grid were looked at: there may be a faster one,
    /// or one that fits.
    bool in_part = false;
};

}  // namespace arena
