// SPDX-License-Identifier: GPL-2.0-or-later
// What the planner is asked for a request: one function for sbatch's preview and the scheduler, so
// that neither forgets what the user asked.
#pragma once

#include <vector>

#include "planner/search/query.h"
#include "request/request.h"

namespace arena {

/// With the pools of the GPU types that it may have, each with no more GPUs than it asks for.
PlanQuery plan_query(const Request&, std::vector<GpuPool> pools);

}  // namespace arena
