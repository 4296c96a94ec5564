// SPDX-License-Identifier: GPL-2.0-or-later
// The policies that sched/arena carries out, every action that they decide.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "policy/policy.h"

namespace arena {

/// The default first.
std::span<const Policy> slurm_policies();
/// nullptr when there is none of that name.
const Policy* find_slurm_policy(std::string_view name);
/// The names that arena.yaml accepts: "fifo, arena, aryl".
std::string slurm_policy_names();

}  // namespace arena
