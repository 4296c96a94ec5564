// SPDX-License-Identifier: GPL-2.0-or-later
// The last configuration that was good, kept beside Slurm's state. Since 23.11 a reconfigure is a
// new slurmctld, which has nothing in its memory to stay with when arena.yaml is broken. With what
// arena.yaml names: its hardware and calibration files.
#pragma once

#include <string>

#include "base/result.h"
#include "site/config.h"

namespace arena {

/// Below Slurm's StateSaveLocation.
std::string kept_config_directory(const std::string& state_save_location);

/// Copies the file that `config` was read from, and those that it names; what is there already is
/// left alone. Nothing is kept of a file that says something else by now: its next reading decides.
Status keep_config(const std::string& directory, const std::string& path, const Config& config);

/// What was kept last, naming the copies; an error where nothing was. As load_config().
Result<Config> load_kept_config(const std::string& directory);
/// The copy of arena.yaml itself.
std::string kept_config_path(const std::string& directory);

}  // namespace arena
