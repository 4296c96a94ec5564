// SPDX-License-Identifier: GPL-2.0-or-later
// Whose turn it is, with order priority: what the stages of a round go by beside values.
#pragma once

#include <optional>

#include "policy/order/keeping.h"

namespace arena {

/// Of the steps of priority, the highest are told apart; the others count as one.
inline constexpr std::uint32_t step_levels = 3;

struct Turn {
    explicit Turn(const Problem&);
    Keeping keeping;
    /// By task: its place in Slurm's order, 0 first.
    std::vector<std::uint32_t> place;
    /// By task: how high its step is, 0 for all that are not among the highest; that of the highest
    /// present for one that runs, for Slurm stops nobody because of priority.
    std::vector<std::uint32_t> level;
};

/// Nothing with order value.
std::optional<Turn> turn_of(const Problem&);

}  // namespace arena
