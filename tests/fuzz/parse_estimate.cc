// SPDX-License-Identifier: GPL-2.0-or-later
// Any text may be a job's ARENA_ESTIMATE; what is read is bounded and can be
// said.
#include <cmath>

// also: plugin/common/quick_estimate.cc
#include "fuzz.h"
#include "plugin/common/quick_estimate.h"

FUZZ(text) {
    const auto estimate = arena::parse_estimate(text);
    if (!estimate) return;
    if (estimate->shapes.size() > arena::QuickEstimate::max_shapes) std::abort();
    for (const auto& shape : estimate->shapes)
        if (shape.grid.gpus() < 1 || !std::isfinite(shape.iteration_s) || shape.iteration_s <= 0)
            std::abort();
    if (!arena::parse_estimate(arena::format_estimate(*estimate))) std::abort();
}
