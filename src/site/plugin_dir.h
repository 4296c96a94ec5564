// SPDX-License-Identifier: GPL-2.0-or-later
// PluginDir of slurm.conf, as far as it says which scheduler "sched/backfill" is.
#pragma once

#include <optional>
#include <string_view>

namespace arena {

/// Whether the first sched_backfill.so of a PluginDir (directories between colons) is a link to
/// Arena's scheduler plug-in, as sites with heterogeneous jobs have it; nothing where no directory
/// of this host has that file.
std::optional<bool> stands_in_for_backfill(std::string_view plugin_dir);

}  // namespace arena
