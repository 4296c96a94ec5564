// SPDX-License-Identifier: GPL-2.0-or-later
// The quick look at a request before it is submitted: planned in sbatch's own process, as its user,
// with what that user may read, so that slurmctld plans nothing while it holds locks. A child
// process does it, for at most a fraction of a second, and whatever becomes of it, the submission
// goes on.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "planner/search/planner.h"
#include "request/request.h"
#include "site/gpu_facts.h"

namespace arena {

/// The query of a request for each GPU type of the nodes that arena.yaml maps, that type alone;
/// none where arena.yaml or the hardware cannot be read. Smaller types first: they are planned
/// faster.
std::vector<PlanQuery> preview_queries(const Request& request, const std::vector<NodeGpus>& nodes);

/// What the queries give within the limit, as format_estimate() has it; "" where nothing came of
/// it.
std::string preview(const std::vector<PlanQuery>& queries, std::chrono::milliseconds limit);

}  // namespace arena
