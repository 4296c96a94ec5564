// SPDX-License-Identifier: GPL-2.0-or-later
// How the CUDA back-end describes an operator: the device buffers of one execution, and what makes
// something that runs out of one set of them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "profiler/cuda/cuda_kernels.h"

namespace arena::cuda {

/// One device buffer of an execution: `count` elements of the shape's type, fp8 or fp32 numbers, or
/// ids.
struct Need {
    enum class Kind { element, fp8, number, ids } kind = Kind::element;
    Index count = 0;
    std::int32_t limit = 0;  ///< ids in [0, limit)
    float value = -1;        ///< numbers start with this; -1 = random
};
inline Need element(Index n) { return {Need::Kind::element, n}; }
inline Need fp8(Index n) { return {Need::Kind::fp8, n}; }
inline Need number(Index n, float value = -1) { return {Need::Kind::number, n, 0, value}; }
inline Need ids(Index n, Index limit) {
    return {Need::Kind::ids, n, static_cast<std::int32_t>(limit)};
}

/// Launches one execution.
using Body = std::function<void()>;
using Buffers = std::vector<void*>;
struct Recipe {
    std::vector<Need> needs;
    std::function<Body(const Buffers&)> make;  ///< once for each set; may launch what prepares it
};

inline float* f32(void* p) { return static_cast<float*>(p); }
inline const std::int32_t* i32(void* p) { return static_cast<const std::int32_t*>(p); }

}  // namespace arena::cuda
