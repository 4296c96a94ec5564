// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may be a job's ARENA_ESTIMATE; what is read is bounded and can be
// said. also: plugin/common/quick_estimate.cc
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "plugin/common/quick_estimate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto estimate = arena::parse_estimate({reinterpret_cast<const char*>(data), size});
    if (!estimate) return 0;
    if (estimate->shapes.size() > arena::QuickEstimate::max_shapes) std::abort();
    for (const auto& shape : estimate->shapes)
        if (shape.grid.gpus() < 1 || !std::isfinite(shape.iteration_s) || shape.iteration_s <= 0)
            std::abort();
    if (!arena::parse_estimate(arena::format_estimate(*estimate))) std::abort();
    return 0;
}
