// SPDX-License-Identifier: GPL-2.0-or-later
// See site_tables.h.
#include "cli/planning/site_tables.h"

#include "planner/hardware/hardware.h"

namespace arena::cli {

Result<SiteTables> read_site_tables(const Globals& globals, std::string hardware,
                                    std::string calibration) {
    if (hardware.empty() || calibration.empty()) {
        std::string unread;
        const Result<Config> config = load_config_or_defaults(globals.config_file, &unread);
        if (!config) return config.error();
        if (!unread.empty()) warn({unread + ": the site's hardware and calibration are not known"});
        if (hardware.empty()) hardware = config->hardware_file;
        if (calibration.empty()) calibration = config->calibration_file;
    }
    auto types = load_hardware(hardware);
    if (!types) return types.error();
    auto table = load_calibration(calibration);
    if (!table) return table.error();
    return SiteTables{std::move(types).value(), std::move(table).value()};
}

}  // namespace arena::cli
