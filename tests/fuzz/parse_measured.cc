// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may be a table of measured runs; a row has a price or a reason, not
// both.
#include "fuzz.h"
#include "planner/evaluate/evaluate.h"
#include "planner/hardware/hardware.h"

FUZZ(text) {
    static const auto hardware = arena::load_hardware("");
    const auto rows = arena::parse_measured(text, "fuzz");
    if (!rows || !hardware) return;
    for (const arena::MeasuredRow& row : *rows) {
        const auto out = arena::evaluate_row(row, {*hardware, arena::builtin_calibration()});
        if (out.priced() != (out.estimate.iteration_s > 0)) std::abort();
    }
}
