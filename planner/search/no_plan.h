// SPDX-License-Identifier: GPL-2.0-or-later
// Why a grid has no plan, in a sentence that says what stands in the way and what would help.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "planner/search/grids.h"
#include "planner/search/query.h"

namespace arena {

/// How far the search of the grid came.
struct NoPlan {
    NodeShape nodes;
    std::int64_t stages = 1;
    bool has_shapes = false;      ///< some degrees and micro-batches go with model, pin and pool
    bool has_candidates = false;  ///< some of them with the grid and the launcher, too
    double least_bytes = std::numeric_limits<double>::infinity();  ///< of these
    std::optional<PlanFacts> untold = {};  ///< the first that the launcher cannot be told
};

std::string why_no_plan(const PlanQuery&, const GpuPool&, const NoPlan&);

}  // namespace arena
