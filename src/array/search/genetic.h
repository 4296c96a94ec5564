// SPDX-License-Identifier: GPL-2.0-or-later
// Schedules of many blocks: the genetic algorithm of ArrayPipe over orders of all blocks, forward
// and backward (the published one orders one direction), begun with the list rule's, and annealing
// of the best (polish.h). Never worse than the list rule; the same seed gives the same schedule.
#pragma once

#include <cstdint>
#include <optional>

#include "array/schedule.h"
#include "array/search/deadline.h"

namespace arena::array {

struct GeneticOptions {
    std::uint64_t seed = 1;
    double seconds = 3;  ///< of one core: the work that a slow one does in that time
    int population = 100;
    int generations = 300;  ///< at most, within a fifth of the time
    bool polish = true;
};

/// Nothing: no order was found that the rules let end. Time is counted in blocks appended, as many
/// as any machine of today can do in less than half of it; the clock ends the search only where
/// that was wrong, and only then may the same seed give another schedule.
std::optional<Schedule> solve_genetic(const Instance& instance, const Rules& rules,
                                      const GeneticOptions& options = {});

}  // namespace arena::array
