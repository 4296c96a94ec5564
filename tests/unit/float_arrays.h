// SPDX-License-Identifier: GPL-2.0-or-later
// For the tests of the CPU profiler's kernels: seeded random inputs, and what they are compared
// with.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "profiler/cpu/cpu_kernels.h"
#include "suite.h"

namespace arena::test {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline std::size_t at(cpu::Index i) { return static_cast<std::size_t>(i); }

/// n values in [-width / 2, width / 2).
inline Floats draw(cpu::Index n, unsigned seed, double width = 2) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> value(static_cast<float>(-width / 2),
                                                static_cast<float>(width / 2));
    Floats v(at(n));
    for (auto& x : v) x = value(engine);
    return v;
}

inline Doubles wide(const Floats& v) { return {v.begin(), v.end()}; }

/// By max |got - want| / (1e-3 + max |want|).
inline void close(const Floats& got, const Doubles& want, double bound, const char* what) {
    ck_assert_uint_eq(got.size(), want.size());
    double top = 0, worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        top = std::max(top, std::abs(want[i]));
        worst = std::max(worst, std::abs(static_cast<double>(got[i]) - want[i]));
        if (std::isnan(got[i])) worst = INFINITY;
    }
    ck_assert_msg(worst / (1e-3 + top) <= bound, "%s: %g, bound %g", what, worst / (1e-3 + top),
                  bound);
}

}  // namespace arena::test
