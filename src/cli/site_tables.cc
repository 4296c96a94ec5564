// SPDX-License-Identifier: GPL-2.0-or-later
// See site_tables.h.
#include "cli/site_tables.h"

#include <unistd.h>

namespace arena::cli {

Result<SiteTables> read_site_tables(const Globals& globals, std::string hardware, std::string calibration) {
    const bool is_absent =
        globals.config_file.empty() && ::access(site_config_path(globals).c_str(), F_OK) != 0;
    if (!is_absent && (hardware.empty() || calibration.empty())) {
        const Result<Config> config = load_site_config(globals);
        if (!config) return config.error();
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
