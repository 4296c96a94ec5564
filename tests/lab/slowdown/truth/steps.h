// SPDX-License-Identifier: GPL-2.0-or-later
// The steps that a stream of calls really had, as a table says, and how well they were found. For
// evaluation: a running job needs none of this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tests/lab/slowdown/truth/calls_file.h"

namespace arena::slowdown {

struct TrueStep {
    std::int64_t start_us = 0, duration_us = 0;  ///< duration > 0
    std::size_t calls = 0;                       ///< of the step
};
/// Columns sequence, start_us, duration_us, calls; others are ignored. Steps of a sequence stand in
/// order of time. Errors name the line.
Result<std::map<std::string, std::vector<TrueStep>>> parse_steps(std::string_view text,
                                                                 const std::string& file);

struct PeriodScore {
    std::size_t period = 0;         ///< at the end
    std::size_t wanted = 0;         ///< calls of most of the last steps
    std::size_t first_answer = 0;   ///< steps until there was a period; 0: never
    std::size_t longest_wrong = 0;  ///< steps in a row, after that, that had another period
    std::size_t measured = 0;       ///< iterations from the sixth step on
    double median_error = 0;        ///< of these, relative
    /// The right period, within 5 steps and again within 5 of a change, errors of at most 1.2 %.
    [[nodiscard]] bool is_good() const;
};
/// O(calls). steps: at least one. Errors: those of PeriodFinder::add.
Result<PeriodScore> score_period(const CallStream& stream, std::span<const TrueStep> steps);

}  // namespace arena::slowdown
