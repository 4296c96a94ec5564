// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may be a table of constants; what is accepted keeps every default
// entry.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "planner/hardware/calibration.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto table =
        arena::parse_calibration(std::string_view(reinterpret_cast<const char*>(data), size),
                                 "fuzz", arena::builtin_calibration());
    if (!table) return 0;
    if (table->devices.size() < arena::builtin_calibration().devices.size()) std::abort();
    const arena::DeviceConstants& device = table->device("no such device");
    if (!(device.gemm_share > 0) || !(device.gemm_share <= 1)) std::abort();
    return 0;
}
