// SPDX-License-Identifier: GPL-2.0-or-later
// Profiles that come with slurm-arena (etc/profiles, installed in pkgdatadir): recorded on GPUs of
// a hardware entry, for sites that have not measured their own yet. What a site measured wins over
// all of them.
#pragma once

#include <string>
#include <vector>

#include "core/profile.h"

namespace arena {

struct ShippedProfile {
    ProfileTable table;                   ///< empty = there is none of this entry
    std::string device;                   ///< whose seconds these are; "" = none
    std::vector<std::string> complaints;  ///< files that were left out, and why
};

/// The profiles (*.json) of a directory that say they are of this hardware entry, joined where they
/// are of one device identity; of several devices the one measured last. A CPU's are never taken:
/// its seconds are its own. A directory that is not there holds none.
ShippedProfile read_shipped_profile(const std::string& directory, const std::string& hardware);
/// Beside the built-in hardware entries.
std::string shipped_profiles_path();
ShippedProfile shipped_profile(const std::string& hardware);

}  // namespace arena
