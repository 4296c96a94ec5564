// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/plans/context.h"

#include "planner/hardware/hardware.h"
#include "planner/models/model.h"

namespace arena {

std::optional<PoolContext> prepare(const Model& model, const GpuPool& pool,
                                   std::int64_t global_batch) {
    const auto precision = effective_precision(pool.hardware, model.precision);
    if (!precision) return std::nullopt;
    const CostConstants constants =
        pool.constants ? *pool.constants
                       : builtin_calibration().constants(pool.hardware.name, pool.framework);
    LayerList layers = layer_list(model);
    const double head_tokens = model.family == Family::bert ? constants.framework.head_tokens : 1;
    const double sample_flops = forward_flops(model, layers, head_tokens);
    return PoolContext{.model = model,
                       .pool = pool,
                       .global_batch = global_batch,
                       .precision = *precision,
                       .constants = constants,
                       .pricer = Pricer(pool.hardware, constants, pool.profile),
                       .layers = std::make_shared<const LayerIndex>(std::move(layers)),
                       .head_tokens = head_tokens,
                       .sample_flops = sample_flops};
}

Span nearest_span(const GpuPool& pool, std::int64_t nodes) {
    if (pool.leaf_nodes == 0 || nodes <= pool.leaf_nodes) return Span::leaf;
    return pool.pod_nodes == 0 || nodes <= pool.pod_nodes ? Span::pod : Span::pods;
}

std::int64_t share_in(const GpuPool& pool, const Grid& grid) {
    const std::int64_t share =
        domain_share(pool.hardware, grid, pool.gpus_per_node, pool.domain_nodes);
    return pool.domains_alternate && share < grid.nodes ? 1 : share;
}

Topology topology_over(const GpuPool& pool, const Grid& grid, Span span, bool shares_domain) {
    const std::int64_t share = shares_domain ? share_in(pool, grid) : 1;
    return make_topology(pool.hardware, grid, pool.gpus_per_node,
                         {.span = span, .domain_nodes = share});
}

Topology topology_of(const GpuPool& pool, const Grid& grid) {
    return topology_over(pool, grid, nearest_span(pool, grid.nodes), true);
}

double model_tflops_per_gpu(const PoolContext& context, double samples_per_s, double gpus) {
    const double passes = is_adapted(context.model) ? 2 : 3;  // no gradients of frozen weights
    return passes * context.sample_flops * samples_per_s / gpus / 1e12;
}

}  // namespace arena
