// SPDX-License-Identifier: GPL-2.0-or-later
// A query on one of its pools, prepared for pricing: what follows from model and pool is derived
// here, once. All that prices or searches takes it instead of the model alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "planner/hardware/collectives.h"
#include "planner/models/layer_index.h"
#include "planner/operators/cost.h"
#include "planner/plans/pool.h"

namespace arena {

/// Keeps references to the query's model and pool.
struct PoolContext {
    const Model& model;
    const GpuPool& pool;
    std::int64_t global_batch;
    Precision precision;  ///< effective
    CostConstants constants;
    Pricer pricer;
    std::shared_ptr<const LayerIndex> layers;
    double head_tokens;   ///< share of tokens that reach the output head: bert may predict only
                          ///< the masked ones
    double sample_flops;  ///< of one forward pass: those that are really done, see forward_flops()
    [[nodiscard]] bool is_homogeneous() const {
        return layers->form() == LayerIndex::Form::homogeneous;
    }
};
/// The nearest that so many nodes of the pool can lie together.
Span nearest_span(const GpuPool&, std::int64_t nodes);
/// How many of the grid's nodes share an NVLink domain at a time: domain_share(), as far as their
/// ranks follow each other there.
std::int64_t share_in(const GpuPool&, const Grid&);
/// How the grid is wired on nodes that lie so. `shares_domain`: as many of them as share_in() says
/// share an NVLink domain each.
Topology topology_over(const GpuPool&, const Grid&, Span, bool shares_domain);
/// That of the search: as near as can be, in as few domains.
Topology topology_of(const GpuPool&, const Grid&);
/// Nothing where the type does not compute in the model's precision.
std::optional<PoolContext> prepare(const Model&, const GpuPool&, std::int64_t global_batch);
/// Model TFLOP/s per GPU.
double model_tflops_per_gpu(const PoolContext&, double samples_per_s, double gpus);

}  // namespace arena
