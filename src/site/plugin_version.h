// SPDX-License-Identifier: GPL-2.0-or-later
// For which Slurm a plug-in was built, as slurmctld itself asks: by the file's symbol
// plugin_version. Read without loading the file, which wants slurmctld around it. 64-bit
// little-endian ELF only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace arena {

/// "22.05.8" of the bytes of a shared object; nothing where it is none, is cut off or has no such
/// symbol.
std::optional<std::string> parse_plugin_version(std::string_view elf);

}  // namespace arena
