// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/requests/would_fit.h"

#include <fmt/format.h>

#include "base/text.h"
#include "planner/search/planner.h"

namespace arena {
namespace {

constexpr const char* full_recompute = "full";

}  // namespace

std::vector<std::string> what_would_fit(const PlanQuery& query, PlanBudget& budget) {
    std::vector<std::string> names;
    if (!query.pin.recompute && query.can.degree(Feature::recompute_full) == Degree::pinned) {
        PlanQuery recomputed = query;
        recomputed.pin.recompute = Recompute::full;
        if (fits_memory(recomputed, budget)) names.emplace_back(full_recompute);
    }
    for (const Launcher& launcher : launchers()) {
        PlanQuery other = query;
        other.can = launcher.can();
        if (other.can != query.can && fits_memory(other, budget)) names.push_back(launcher.name);
    }
    return names;
}

std::string would_fit_text(const std::vector<std::string>& names) {
    std::vector<std::string> ways, others;
    for (const std::string& name : names)
        if (name == full_recompute)
            ways.emplace_back("full recompute (--arena-plan=full)");
        else
            others.push_back(name);
    if (!others.empty())
        ways.push_back(
            fmt::format("the launcher{} {}", others.size() == 1 ? "" : "s", join(others, ", ")));
    return ways.empty() ? "" : join(ways, " or ") + " would fit";
}

}  // namespace arena
