// SPDX-License-Identifier: GPL-2.0-or-later
// See plugin_dir.h.
#include "site/plugin_dir.h"

#include <filesystem>
#include <string>

#include "base/text.h"

namespace arena {

std::optional<bool> stands_in_for_backfill(std::string_view plugin_dir) {
    for (const std::string_view directory : split(plugin_dir, ':')) {
        if (trim(directory).empty()) continue;
        std::error_code missing;
        const auto file = std::filesystem::canonical(
            std::string(trim(directory)) + "/sched_backfill.so", missing);
        if (!missing) return file.filename() == "sched_arena.so";
    }
    return std::nullopt;
}

}  // namespace arena
