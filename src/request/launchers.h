// SPDX-License-Identifier: GPL-2.0-or-later
// The launchers that are known by name: the tables of src/request/launchers/, compiled in. One way
// to name them everywhere: NAME, or NAME@VERSION.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "request/launcher_features.h"
#include "request/launcher_table.h"

namespace arena {

/// In the order of src/local.mk.
std::span<const Launcher> launchers();
const Launcher* find_launcher(std::string_view name);
/// "ddp, env, torchrun, ...", for messages.
std::string launcher_names();

/// A launcher in one of its versions.
struct LauncherChoice {
    const Launcher* launcher = nullptr;
    std::optional<Version> version;  ///< absent: it has none
    [[nodiscard]] Capabilities can() const { return launcher->can(version); }
};
/// "NAME" or "NAME@VERSION"; without a version the one of its table. Errors name what is accepted.
Result<LauncherChoice> parse_launcher(std::string_view text);
/// "megatron@0.13", "env".
std::string to_string(const LauncherChoice&);
/// Of a name that parse_launcher() took; else what a script that reads ARENA_* can be told.
Capabilities capabilities_of(std::string_view launcher);

}  // namespace arena
