// SPDX-License-Identifier: GPL-2.0-or-later
// ARENA_GIVEN (plugin/common/given.h) on the side of jobs: what tasks add to it, and what is taken
// back before another job is made of their environment. No Slurm here: unit-tested.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace arena {

/// `given` with these names behind it, each once.
std::string given_also(std::string_view given, const std::vector<std::string_view>& names);

/// Variables and their values from then on; nothing: unset. Of LD_PRELOAD only the recorder goes.
std::vector<std::pair<std::string, std::optional<std::string>>> taken_back(
    std::string_view given, std::string_view preload);

}  // namespace arena
