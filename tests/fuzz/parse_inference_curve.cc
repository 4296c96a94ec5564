// SPDX-License-Identifier: GPL-2.0-or-later
// Whatever parse_inference_curve() takes has a load at every time, and survives its text form.
// also: src/sim/loans/inference.cc
#include <cmath>

#include "fuzz.h"
#include "sim/loans/inference.h"

FUZZ(text) {
    const auto curve = arena::sim::parse_inference_curve(text, "curve");
    if (!curve) return;
    for (const auto& load : curve->loads)
        for (const double time_s : {0.0, 1.0, 86400.0, 1e9}) {
            if (!std::isfinite(load.at(time_s)) || load.at(time_s) < 0) std::abort();
            if (!(load.next_change_s(time_s) > time_s)) std::abort();
        }
    const auto again =
        arena::sim::parse_inference_curve(arena::sim::format_inference_curve(*curve), "again");
    if (!again || again->loads.size() != curve->loads.size()) std::abort();
}
