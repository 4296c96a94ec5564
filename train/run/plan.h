// SPDX-License-Identifier: GPL-2.0-or-later
// Where the plan of a run comes from: ARENA_PLAN (the offer as JSON) and ARENA_GLOBAL_BATCH that
// Arena writes into the job, or the command line. What the trainer cannot run, or what does not fit
// the model, the batch or the number of ranks, is refused in a sentence.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "train/core/pipeline.h"
#include "train/run/device_choice.h"

namespace arena::train {

/// Degrees from the command line; 0 and empty = not given.
struct PlanFlags {
    Index pp = 0, dp = 0, tp = 0, micro_batch = 0;
    std::string stage_layers;  ///< "5,7"
    std::string recompute;     ///< "none", "selective", "full"
    Index zero = -1;
    [[nodiscard]] bool any() const;
};

/// ARENA_PLAN where it is set; an offer that arena-train cannot run is refused with what it cannot.
Result<std::optional<TrainPlan>> plan_of_environment(const Environment&);
/// Degrees that are not given are 1, but dp: the ranks that are left. Stages as even as can be.
Result<TrainPlan> plan_of_flags(const PlanFlags&, const GptShape&, Index global_batch, Index ranks);
/// Whether the plan fits the model, the batch and the ranks.
Status check_plan(const TrainPlan&, const GptShape&, Index global_batch, Index ranks);
/// "pp2,dp2,tp1,mb4x16, stages of 5,7 layers, recompute full, ZeRO 1".
std::string describe(const TrainPlan&);

}  // namespace arena::train
