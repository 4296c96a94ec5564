// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may claim to be a hardware file; every accepted entry is found by its
// name and has rates to divide by.
#include "fuzz.h"
#include "planner/hardware/hardware.h"

FUZZ(text) {
    const auto types = arena::parse_hardware(text, "fuzz");
    if (!types) return;
    for (const arena::GpuType& type : *types) {
        if (!arena::find_hardware(*types, type.name)) std::abort();
        if (!(type.intra.bytes_per_s > 0) || !(type.memory_bytes_per_s > 0) || type.sm_count < 1)
            std::abort();
    }
}
