// SPDX-License-Identifier: GPL-2.0-or-later
// The load of inference over time, as `arena simulate --inference` reads it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena::sim {

/// Demand of one GPU type, or of the only one ("").
struct InferenceLoad {
    struct Step {
        double time_s = 0, amount = 0;  ///< from this time until the next
        bool operator==(const Step&) const = default;
    };
    std::string gpu_type;
    std::vector<Step> steps;  ///< times ascend strictly; never empty

    /// Before the first step as in it; after the last, which lasts as long as the one before it,
    /// all begins again.
    [[nodiscard]] double at(double time_s) const;
    /// When it changes next; infinite: never.
    [[nodiscard]] double next_change_s(double time_s) const;
    bool operator==(const InferenceLoad&) const = default;

  private:
    [[nodiscard]] double period_s() const;
};

struct InferenceCurve {
    bool in_nodes = false;  ///< amounts are nodes, else GPUs
    std::vector<InferenceLoad> loads;
    bool operator==(const InferenceCurve&) const = default;
};

/// Columns time_s, one of gpus and nodes, and optionally gpu_type; at most a million rows. Refuses
/// what is negative or not finite, times of a type that do not ascend by at least
/// a second, and an empty file.
Result<InferenceCurve> parse_inference_curve(std::string_view text, const std::string& name);
/// The same columns.
std::string format_inference_curve(const InferenceCurve&);

}  // namespace arena::sim
