// SPDX-License-Identifier: GPL-2.0-or-later
// Seeded random inputs for the tests of the CPU profiler's kernels.
#pragma once

#include <random>
#include <vector>

#include "profiler/cpu/cpu_kernels.h"

namespace arena::test {

inline std::size_t at(cpu::Index i) { return static_cast<std::size_t>(i); }

/// n values in [-1, 1).
inline std::vector<float> draw(cpu::Index n, unsigned seed) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> value(-1, 1);
    std::vector<float> v(at(n));
    for (auto& x : v) x = value(engine);
    return v;
}

}  // namespace arena::test
