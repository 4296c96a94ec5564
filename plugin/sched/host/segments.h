// SPDX-License-Identifier: GPL-2.0-or-later
// The segment of a job that Slurm may start by itself: its plan's and its user's own, both of which
// hold. Its user's is kept beside, for Slurm's record has room for one. In nodes; 0: none. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>

#include "base/text.h"

namespace arena {

/// Slurm's field is short: more than it holds is more nodes than any job has, and refused as that.
inline constexpr std::int64_t longest_segment = 0xfffd;

/// What the job's user asked for. `kept`: as it was kept; nothing where Slurm's record has it
/// still.
inline std::int64_t own_segment(std::int64_t now, std::optional<std::string_view> kept) {
    return kept ? parse_integer(*kept, 0, longest_segment).value_or(0) : now;
}

/// Nodes that are whole segments of this size are so for the user and for the plan.
inline std::int64_t joint_segment(std::int64_t own, std::int64_t plan) {
    return std::min(own == 0 ? plan : std::lcm(own, plan), longest_segment);
}

}  // namespace arena
