// SPDX-License-Identifier: GPL-2.0-or-later
// How far iteration times told from communication calls are those that the trainer measured itself.
// The two count from different iterations: each run of estimates is laid where it fits the
// measured ones best.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena::slowdown {

/// Iterations that follow one another, of one rank.
struct EstimatedRun {
    std::int64_t rank = 0;
    std::vector<double> seconds;
};

/// Lines of the watch's events.jsonl; events other than "iterations" are left out, so is a last
/// line that is cut short. A gap in time begins a new run. Errors name the line.
Result<std::vector<EstimatedRun>> read_estimates(std::string_view text, const std::string& file);
/// iteration_s of the lines of a log of arena-train that have it, as read_estimates() reads lines.
Result<std::vector<double>> read_measured(std::string_view text, const std::string& file);

struct RankAccuracy {
    std::int64_t rank = 0;
    std::size_t iterations = 0;  ///< that were compared
    double median_error = 0;     ///< of each iteration, relative
    double p95_error = 0;
};

inline constexpr std::size_t shortest_run = 5;  ///< iterations that tell where they belong

/// By rank. Runs that are shorter than shortest_run, or longer than what was measured, are left
/// out.
std::vector<RankAccuracy> accuracy_of(const std::vector<EstimatedRun>& estimates,
                                      const std::vector<double>& measured);

}  // namespace arena::slowdown
