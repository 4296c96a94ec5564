// SPDX-License-Identifier: GPL-2.0-or-later
// See plan_query.h.
#include "planner/requests/plan_query.h"

#include <algorithm>

#include "planner/requests/cluster_rules.h"

namespace arena {

PlanQuery plan_query(const Request& request, std::vector<GpuPool> pools) {
    PlanQuery query;
    query.model = request.model;
    query.global_batch = request.global_batch;
    query.min_gpus = request.min_gpus;
    query.pin = request.pin;
    query.can = capabilities_of(launcher_of(request));
    query.uneven = takes_pieces(request);
    std::erase_if(pools, [&](const GpuPool& p) { return !allows_type(request, p.gpu_type); });
    for (GpuPool& pool : pools) {
        if (request.max_gpus > 0) pool.max_gpus = std::min(pool.max_gpus, request.max_gpus);
        query.max_gpus = std::max(query.max_gpus, pool.max_gpus);
    }
    query.pools = std::move(pools);
    return query;
}

}  // namespace arena
