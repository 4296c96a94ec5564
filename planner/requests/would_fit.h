// SPDX-License-Identifier: GPL-2.0-or-later
// What would fit where a query has no plan: recompute, which its launcher takes only where it is
// asked for, or another launcher, which can be told plans of less memory. By memory alone, not by
// time: what a user can try next.
#pragma once

#include <string>
#include <vector>

#include "planner/search/budget.h"
#include "planner/search/query.h"

namespace arena {

/// Names: "full" for full recompute (--arena-plan=full) by the query's own launcher, then launchers
/// in the order of their tables, in the versions that these mean. What the budget ends before is
/// left out.
std::vector<std::string> what_would_fit(const PlanQuery&, PlanBudget&);

/// "full recompute (--arena-plan=full) or the launchers fsdp, deepspeed would fit"; "" of none.
std::string would_fit_text(const std::vector<std::string>& names);

}  // namespace arena
