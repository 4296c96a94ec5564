// SPDX-License-Identifier: GPL-2.0-or-later
#include "policy/policy.h"

#include <array>
#include <utility>

namespace arena {
namespace {

constexpr std::array<std::pair<Objective, std::string_view>, 3> objectives{
    {{Objective::jct, "jct"},
     {Objective::throughput, "throughput"},
     {Objective::fairness, "fairness"}}};

}  // namespace

std::string_view to_string(Objective objective) {
    for (const auto& [value, name] : objectives) {
        if (value == objective) return name;
    }
    return "?";
}

std::optional<Objective> parse_objective(std::string_view text) {
    for (const auto& [value, name] : objectives) {
        if (name == text) return value;
    }
    return std::nullopt;
}

}  // namespace arena
