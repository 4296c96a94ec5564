// SPDX-License-Identifier: GPL-2.0-or-later
// Whole layers executed as a training step runs them, beside what the planner makes of a profile
// for the same layers: how far predictions from single operators can be trusted on this device. CPU
// only.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "core/profile.h"
#include "planner/operators/cost.h"
#include "planner/operators/operators.h"
#include "profiler/run/predict.h"

namespace arena {

struct DirectOptions {
    Model model;
    ShardShape shard;              ///< tp, micro_batch; no sequence, context or expert parallelism
    std::int64_t layers = 1;       ///< of the model's first kind
    std::int64_t iterations = 20;  ///< timed forward+backward passes, after one that is not
    std::int64_t threads = 0;      ///< 0 = as many as the affinity mask allows
};

struct DirectResult {
    double forward_s = 0, backward_s = 0;  ///< medians over the iterations, all layers
    double spread = 0;  ///< half-width of the 95 % interval of the sum's median / median
    /// Both passes as the sum of each operator's median in its place: the statistic that profiles
    /// hold, so that other processes that stop a pass now and then count on neither side. Close to
    /// forward_s + backward_s on a quiet machine.
    double in_place_s = 0;
    double spent_s = 0;  ///< all iterations, the first included
    std::int64_t threads = 0;
};

/// Dense transformers with attention over all keys only (ErrorCode::no else), and what fits into
/// half of the free memory.
Result<DirectResult> run_direct(const DirectOptions&);

/// The same layers as the planner prices them, in fp32: by their operators, and by the whole layers
/// that the profile has.
LayerPrediction predict_direct(const DirectOptions&, const Pricer&);

}  // namespace arena
