// SPDX-License-Identifier: GPL-2.0-or-later
// The tables that a site may add to: hardware entries and calibrated constants. The same for every
// command that prices plans, and as the scheduler plug-in has them.
#pragma once

#include <string>
#include <vector>

#include "cli/common/cli.h"
#include "core/hardware.h"
#include "planner/hardware/calibration.h"

namespace arena::cli {

struct SiteTables {
    std::vector<GpuType> hardware;
    Calibration calibration;
};

/// Each from the file that the option names, else from the one that arena.yaml names, else the
/// built-in table alone; so is a site without an arena.yaml served, unless --config names one.
Result<SiteTables> read_site_tables(const Globals&, std::string hardware_option,
                                    std::string calibration_option);

}  // namespace arena::cli
