// SPDX-License-Identifier: GPL-2.0-or-later
// The second stage of a round: one choice or none for every task, by count of GPUs alone, so that
// the sum of values is greatest (knapsack.h); with options.shares, values of accounts are scaled
// until those that want more have their share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/arena/arena_rules.h"
#include "policy/problem.h"

namespace arena {

struct Selection {
    std::vector<std::int32_t> chosen;  ///< by task: index within its choices, or -1
    // Both as they are without shares.
    std::vector<double> gpu_prices;  ///< of a GPU by type
    bool exact = false;              ///< `chosen` is the best there is by count
    std::int64_t steps = 0;          ///< left of the budget of a decision
};

/// values: by choice, all tasks one after the other.
Selection choose(const Problem&, std::span<const double> values, const ArenaRules&);
/// Once more with other values, without shares; only `chosen` and the steps change.
void choose_anew(const Problem&, std::span<const double> values, Selection&);
/// Whether there are shares to keep: an account alone has everything.
bool has_shares(const Problem&);

}  // namespace arena
