// SPDX-License-Identifier: GPL-2.0-or-later
// A property test does the same every time, so that what fails can be looked at and what passes
// lands: its seed is fixed. tests/bench/properties tries others; RC_PARAMS="seed=N" gives one
// again.
#pragma once

#include <rapidcheck.h>

#include <cstdlib>
#include <string>

#include "suite.h"

namespace arena::test {

/// PROPERTY(function, "what holds"): a test of it.
#define PROPERTY(function, words) \
    TEST(function##_holds) { ck_assert(rc::check(words, function)); }

/// To be called before each. `cases` of each property; RC_PARAMS, if set, wins.
inline void fix_seed(int cases) {
    ::setenv("RC_PARAMS", ("seed=1 max_success=" + std::to_string(cases)).c_str(), 0);
}

}  // namespace arena::test
