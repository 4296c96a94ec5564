// SPDX-License-Identifier: GPL-2.0-or-later
// All policies: those of sched/arena and those that only the simulator runs.
#pragma once

#include <span>
#include <string_view>

#include "policy/policy.h"

namespace arena {

/// The default first.
std::span<const Policy> policies();
/// nullptr when there is none of that name.
const Policy* find_policy(std::string_view name);

}  // namespace arena
