// SPDX-License-Identifier: GPL-2.0-or-later
// QuickEstimate: what sbatch finds out about a request before it submits it: the shapes that the
// cluster could give it and how long an iteration would take. It travels beside the request record,
// and makes the lines that the user sees at submit, and the time limit of a job that says its steps
// (steps_limit.h). Whoever submits can forge it, and misinforms nobody but himself: the scheduler
// believes steps by its own estimate.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/offer.h"

namespace arena {

inline constexpr std::string_view estimate_variable = "ARENA_ESTIMATE";

struct QuickEstimate {
    struct Shape {
        Grid grid;         ///< its stages are left out
        std::string plan;  ///< as short_form() has it
        double iteration_s = 0;
        Source source = Source::analytic;
        bool operator==(const Shape&) const = default;
    };
    static constexpr std::size_t max_shapes = 96, max_bytes = 8192, max_why = 600;
    bool complete = true;                ///< false: time was up, there may be a better one
    std::vector<Shape> shapes;           ///< best first
    std::vector<std::string> would_fit;  ///< of no shapes: names, as what_would_fit() has them
    std::string none = {};               ///< why there is no shape at all, by GPU type
    bool operator==(const QuickEstimate&) const = default;
};

/// What a job that Slurm starts while Arena only observes is told of a plan.
inline constexpr std::string_view advice_variable = "ARENA_ADVICE";
/// "10.4s", "0.0123s": three digits, no exponent.
std::string short_seconds(double seconds);
/// "grid=4xa40 plan=pp2,dp2,tp1,mb4x16 est=10.4s source=profiled"
std::string advice_words(const std::string& grid, const std::string& plan, double iteration_s,
                         Source source);

/// Of more than max_shapes offers, best first, those that are left when counts that are no powers
/// of two go, and then the last ones; but the slowest of each GPU type stays.
QuickEstimate quick_estimate(const std::vector<Offer>& offers, bool complete);
/// The same of shapes of several types.
void keep_most_shapes(std::vector<QuickEstimate::Shape>& shapes);

/// "v2 complete a40:1:4:0.512:analytic:pp1,dp4,tp1,mb2x2 ...": type, nodes, GPUs of each, seconds,
/// source, plan; of more than max_bytes the first, and the slowest of each type. Without any,
/// "fit:NAME" for what would fit, and last "none REASON".
std::string format_estimate(const QuickEstimate&);
/// Nothing for another version or malformed text.
std::optional<QuickEstimate> parse_estimate(std::string_view text);

}  // namespace arena
