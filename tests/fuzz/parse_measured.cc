// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may be a table of measured runs; a row has a price or a reason, not
// both.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "planner/evaluate/evaluate.h"
#include "planner/hardware/hardware.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const auto hardware = arena::load_hardware("");
    const auto rows =
        arena::parse_measured(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    if (!rows || !hardware) return 0;
    for (const arena::MeasuredRow& row : *rows) {
        const auto out = arena::evaluate_row(row, {*hardware, arena::builtin_calibration()});
        if (out.priced() != (out.estimate.iteration_s > 0)) std::abort();
    }
    return 0;
}
