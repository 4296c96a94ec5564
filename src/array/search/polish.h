// SPDX-License-Identifier: GPL-2.0-or-later
// Simulated annealing: of the list rule's ranks, a small space in which most of what is good of
// large instances lies; and of an order of blocks, in which all that is good lies. One item goes to
// another place near its own, or two change places. On the makespan alone it stays where it starts,
// because most moves change nothing that counts; a little of the mean end of jobs in the objective
// leads on.
#pragma once

#include <cstdint>

#include "array/list_rule.h"
#include "array/schedule.h"
#include "array/search/deadline.h"

namespace arena::array {

struct PolishOptions {
    std::uint64_t seed = 1;
    std::uint64_t appended = 0;  ///< blocks to append in all: the work, in which it cools down
    Ticks bound = 0;             ///< it stops at this makespan
    double warm = 0.01;          ///< first temperature, as a share of the makespan
    double cold = 0.05;          ///< last temperature, as a share of the first
};

/// The best order met, never worse than the given one, which must be complete under the rules. The
/// same options give the same order, unless the deadline passes.
Order polish(const Instance& instance, const Rules& rules, Order order,
             const PolishOptions& options, const Deadline& deadline);

/// Of the list rule with these ranks, or better ones; empty: it came to no end with any.
Order polish_ranks(const Instance& instance, const Rules& rules, Ranks ranks,
                   const PolishOptions& options, const Deadline& deadline);

}  // namespace arena::array
