// SPDX-License-Identifier: GPL-2.0-or-later
// How one running job stands with slowdowns: what they do to it, and what is known and done about
// them.
#pragma once

#include <limits>

#include "sim/slow/slow_effect.h"
#include "slowdown/ski_rental.h"

namespace arena::sim {

enum class SlowStage {
    healthy,
    suspected,  ///< it is slow, and nobody knows yet
    detected,
    relieved,  ///< it is no longer, and nobody knows yet
};

struct SlowWatch {
    SlowStage stage = SlowStage::healthy;
    SlowJob job = {};
    SlowParts parts = {};
    std::vector<std::int64_t> counts = {};  ///< micro-batches of each replica; empty: even
    double lost_s = 0;                      ///< by the event at hand, until the last change of pace
    double done = 0;                        ///< iterations on these GPUs until then
    double due_s = std::numeric_limits<double>::infinity();       ///< when the next thing happens
    slowdown::Strategy next = slowdown::Strategy::micro_batches;  ///< where it is an answer
};

/// Nodes that a job left because they are slow.
struct SlowAvoidance {
    std::vector<NodeIndex> nodes;
    double until_s = 0;
};

}  // namespace arena::sim
