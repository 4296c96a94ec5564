// SPDX-License-Identifier: GPL-2.0-or-later
// What the planner makes of a profile for the layers of a shard: what runs of whole layers are held
// against, ours on the CPU (direct.h) and a framework's on a GPU (tests/gpu/compare).
#pragma once

#include "base/result.h"
#include "core/profile.h"
#include "planner/operators/cost.h"
#include "planner/operators/operators.h"
#include "profiler/core/options.h"

namespace arena {

struct LayerPrediction {
    double forward_s = 0, backward_s = 0;  ///< device seconds, no communication, no host
    double exact = 0;        ///< share of the seconds that rests on shapes measured exactly
    double operators_s = 0;  ///< both passes by the sum of their operators alone
};
/// `layers` of the model's first kind.
LayerPrediction predict_layers(const Model&, Precision, const ShardShape&, std::int64_t layers,
                               const Pricer&);

/// `arena-profiler predict`: the same as text or JSON. Returns the exit code.
int run_predict_command(const Options&);

}  // namespace arena
