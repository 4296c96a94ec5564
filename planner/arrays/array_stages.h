// SPDX-License-Identifier: GPL-2.0-or-later
// A model as the stages of a pipeline that siblings share: what one member's mini-batch takes on
// each device forward and back, and the bytes that it needs there. The scheduling problem of
// src/array is made from it. Just-in-time update and recomputation as in ArrayPipe (INFOCOM'25).
#pragma once

#include <cstdint>
#include <vector>

#include "array/memory.h"
#include "base/result.h"
#include "planner/plans/pool.h"
#include "planner/search/query.h"

namespace arena {

/// Of one member on one stage; seconds and bytes. A member's batch goes through in one piece.
struct ArrayStage {
    std::int64_t layers = 0;
    double forward_s = 0, backward_s = 0;
    double recompute_s = 0;  ///< before the backward
    double update_s = 0;     ///< of the stage's parameters, behind the backward
    double transfer_s = 0;   ///< to the stage behind it, and back: each
    double weight_bytes = 0;
    double state_bytes = 0;       ///< with gradients and optimizer state
    double home_bytes = 0;        ///< of it in the host's memory, wherever else it is: HomeState
    double checkpoint_bytes = 0;  ///< input of the stage, kept from forward to backward
    double working_bytes = 0;     ///< what the running block needs besides
    double activation_bytes = 0;  ///< kept from forward to backward where nothing is recomputed
};

/// The partition of layers into so many stages, one device each, that is fastest for many members.
/// Errors (code no): a precision that the type lacks, more stages than layers, a stage that does
/// not fit, tied tables.
Result<std::vector<ArrayStage>> array_stages(const PlanQuery&, const GpuPool&, std::int64_t stages);

/// `members` equal jobs on those stages. A tick is tick_s long: a microsecond, or more where so
/// many ticks would not fit the problem.
struct ArrayProblem {
    array::Instance instance;
    array::MemoryNeeds needs;
    double tick_s = 1e-6;
};
/// members: 1 to array::most_jobs; buffers >= 1; reserved_bytes: of each device, whoever runs.
Result<ArrayProblem> array_problem(const std::vector<ArrayStage>&, std::int64_t members,
                                   int buffers, double reserved_bytes);

}  // namespace arena
