// SPDX-License-Identifier: GPL-2.0-or-later
// What --arena-slowdown and arena.yaml's slowdown.default say: whether a job is watched for slow
// GPUs and links, and whether it works around them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace arena {

enum class SlowdownMode { off, watch, mitigate };

inline constexpr std::array<std::string_view, 3> slowdown_modes{"off", "watch", "mitigate"};

constexpr std::string_view to_string(SlowdownMode mode) {
    return slowdown_modes[static_cast<std::size_t>(mode)];
}

constexpr std::optional<SlowdownMode> parse_slowdown_mode(std::string_view text) {
    const auto at = std::find(slowdown_modes.begin(), slowdown_modes.end(), text);
    if (at == slowdown_modes.end()) return std::nullopt;
    return static_cast<SlowdownMode>(at - slowdown_modes.begin());
}

}  // namespace arena
