// SPDX-License-Identifier: GPL-2.0-or-later
// ARENA_GIVEN=NAME NAME ...: the variables that a job, step or task has of Arena, this one
// included. Whoever makes another job from inside (sbatch, salloc, an srun without a job) takes
// them back, so that it sees what it would see inside a job that is not Arena's.
#pragma once

#include <string_view>

namespace arena {

inline constexpr std::string_view given_variable = "ARENA_GIVEN";

}  // namespace arena
