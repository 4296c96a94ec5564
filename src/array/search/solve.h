// SPDX-License-Identifier: GPL-2.0-or-later
// The schedule of an array within a time: which search, by the number of blocks and members and by
// the time, and how far its answer can be from the best at most.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "array/schedule.h"

namespace arena::array {

enum class Solver { choose, list, genetic, exact };
std::optional<Solver> parse_solver(std::string_view word);

struct SolveOptions {
    Solver solver = Solver::choose;
    double seconds = 3;
    std::uint64_t seed = 1;
    int exact_blocks = 40;   ///< up to here the exact search begins at once
    int exact_members = 30;  ///< and up to here (the authors' bb_max_jobs)
};

struct Solution {
    std::optional<Schedule> schedule;  ///< none: see proven
    Ticks bound = 0;                   ///< no schedule is shorter
    bool proven = false;    ///< nothing is better; without schedule: rules allow none at all
    std::size_t nodes = 0;  ///< of the exact search
    /// How much shorter another could be at most, as a share of the bound.
    [[nodiscard]] double gap() const {
        if (!schedule || bound <= 0) return 0;
        return static_cast<double>(schedule->makespan) / bound - 1;
    }
};

/// Any-time: the best schedule met within the seconds, and the greatest bound proven. `list` and
/// `genetic` do the same every time; what the exact search finds depends on how far it comes.
Solution solve(const Instance& instance, const Rules& rules, const SolveOptions& options = {});

}  // namespace arena::array
