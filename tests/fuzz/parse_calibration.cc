// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may be a table of constants; what is accepted keeps every default
// entry.
#include "fuzz.h"
#include "planner/hardware/calibration.h"

FUZZ(text) {
    const auto table = arena::parse_calibration(text, "fuzz", arena::builtin_calibration());
    if (!table) return;
    if (table->devices.size() < arena::builtin_calibration().devices.size()) std::abort();
    const arena::DeviceConstants& device = table->device("no such device");
    if (!(device.gemm_share > 0) || !(device.gemm_share <= 1)) std::abort();
}
