// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may claim to be a hardware file; every accepted entry is found by its
// name and has rates to divide by.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "planner/hardware/hardware.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto types =
        arena::parse_hardware(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    if (!types) return 0;
    for (const arena::GpuType& type : *types) {
        if (!arena::find_hardware(*types, type.name)) std::abort();
        if (!(type.intra.bytes_per_s > 0) || !(type.memory_bytes_per_s > 0) || type.sm_count < 1)
            std::abort();
    }
    return 0;
}
