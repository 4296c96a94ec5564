// SPDX-License-Identifier: GPL-2.0-or-later
// The best schedule, with proof. The published "branch and bound" commits to each choice and never
// returns; its candidate rule, even searched whole, loses optima where updates or switches take
// time. Here: partial schedules in layers, by the number of blocks appended. Branching: on one
// device, which block is next there, also one whose input is still to come (the device then waits
// for it); complete, because a block that would delay the next one by nothing may go first. Of
// partial schedules with the same blocks, those that another is no worse than are dropped. Each
// layer keeps so many of least bound; with ever wider layers until nothing was left out below the
// best makespan: any-time, and the least bound that was left out is proven.
#pragma once

#include <cstddef>
#include <optional>

#include "array/schedule.h"
#include "array/search/deadline.h"

namespace arena::array {

struct ExactLimits {
    double seconds = 60;
    std::size_t memory_bytes = std::size_t{1} << 30;
    std::size_t first_width = 256;  ///< of a layer; eight times as many each time
};

struct ExactAnswer {
    std::optional<Schedule> schedule;  ///< none: rules allow none, or none was found
    Ticks bound = 0;                   ///< no schedule has a lower makespan; 0 where there is none
    bool proven = false;  ///< the schedule is a best one, or there is none where it is none
    std::size_t nodes = 0;
};

/// `known`: a schedule to beat, or nothing. Deterministic but for the time limit.
ExactAnswer solve_exact(const Instance& instance, const Rules& rules,
                        const std::optional<Schedule>& known, const ExactLimits& limits = {});

}  // namespace arena::array
