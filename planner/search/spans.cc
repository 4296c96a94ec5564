// SPDX-License-Identifier: GPL-2.0-or-later
// See spans.h.
#include "planner/search/spans.h"

#include <algorithm>

#include "planner/plans/iteration.h"
#include "planner/search/mixed_search.h"
#include "planner/search/search.h"

namespace arena {
namespace {

bool leaves_a_node(const GpuPool& pool, const GridResult& result) {
    const Plan& plan = result.plan;
    if (is_mixed(plan)) return false;
    const Topology apart = topology_over(pool, result.grid, Span::leaf, false);
    return strided_group(apart, plan.cp, plan.tp()).nodes() > 1 ||
           strided_group(apart, plan.ep, plan.etp).nodes() > 1;
}

bool has_uplinks(const GpuType& type) {
    return std::any_of(type.uplinks.begin(), type.uplinks.end(),
                       [](const Uplink& uplink) { return uplink != Uplink{}; });
}

void set_slower(const PoolContext& context, bool shares_domain, GridResult& result) {
    const Span nearest = nearest_span(context.pool, result.grid.nodes);
    double least = 1;
    for (const Span span : {Span::pod, Span::pods}) {
        double& slower = result.slower[static_cast<std::size_t>(span) - 1];
        if (span > nearest || (span == nearest && !shares_domain)) {
            const Topology topology = topology_over(context.pool, result.grid, span, shares_domain);
            slower =
                price_on(context, topology, result.plan).iteration_s / result.estimate.iteration_s;
        }
        // both are sums of the same parts in another order
        least = slower = std::clamp(slower, least, Offer::most_slower);
    }
}

}  // namespace

Estimate price_on(const PoolContext& context, const Topology& topology, const Plan& plan) {
    if (is_mixed(plan)) {
        ShardBook shards(context, plan.sequence_parallel);
        return price_mixed(context, topology, shards, plan);
    }
    const Shard shard(context, topology, shape_of(plan));
    return price_stages(context, topology, shard, choice_of(plan), plan.stage_layers);
}

void price_spans(const PoolContext& context, GridResult& result) {
    const GpuPool& pool = context.pool;
    const Grid& grid = result.grid;
    if (grid.nodes <= 1) return;
    const std::int64_t share = share_in(pool, grid);
    const bool is_split = share > 1 && share < grid.nodes;
    if (is_split || (share > 1 && leaves_a_node(pool, result))) result.segment = share;
    if (share > 1 || has_uplinks(pool.hardware)) set_slower(context, is_split, result);
}

void price_without_domain(const PoolContext& context, GridResult& result) {
    const Span nearest = nearest_span(context.pool, result.grid.nodes);
    const Topology apart = topology_over(context.pool, result.grid, nearest, false);
    if (context.pool.domain_nodes > 1) result.estimate = price_on(context, apart, result.plan);
    if (has_uplinks(context.pool.hardware)) set_slower(context, false, result);
}

}  // namespace arena
