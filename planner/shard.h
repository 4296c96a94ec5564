// SPDX-License-Identifier: GPL-2.0-or-later
// A Shard is everything about a plan that depends only on (tp, micro_batch): operator times, tensor
// parallel communication, parameters, memory. Search prices thousands of plans from a few dozen
// shards without touching an operator again.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/values.h"
#include "planner/collectives.h"
#include "planner/cost.h"
#include "planner/memory.h"
#include "planner/operators.h"
#include "planner/partition.h"
#include "planner/planner.h"

namespace arena {

using EvidenceSeconds = std::array<double, evidence_count>;

/// Seconds of one layer and one micro-batch, forward + backward + what recompute repeats.
struct LayerSeconds {
    double compute_s = 0, comm_s = 0;
    double forward_s = 0, backward_s = 0;  ///< the same, by direction
    [[nodiscard]] double total() const { return compute_s + comm_s; }
};

/// One pool prepared for pricing. Keeps references to the query's model and pool.
struct PoolContext {
    const Model& model;
    const GpuPool& pool;
    std::int64_t global_batch;
    Precision precision;  ///< effective
    CostConstants constants;
    Pricer pricer;
};
PoolContext make_context(const Model&, const GpuPool&, std::int64_t global_batch, Precision);
/// Share of tokens that reach the output head: bert may predict only the masked ones.
double head_tokens(const PoolContext&);
/// Model TFLOP/s per GPU, of the FLOPs that are really done (see forward_flops()).
double model_tflops_per_gpu(const PoolContext&, double samples_per_s, double gpus);

struct Shard {
    Shard(const PoolContext&, const Topology&, const ShardShape&);

    ShardShape shape;
    MemoryModel memory;
    std::array<LayerSeconds, 3> layer;   ///< by Recompute
    double embedding_s = 0, head_s = 0;  ///< compute, forward + backward
    double embedding_comm_s = 0, head_comm_s = 0;
    double optimizer_parameter_s = 0;  ///< per parameter of the step
    double expert_parameters = 0;      ///< of layer_parameters, those in routed experts
    double layer_parameters = 0, embedding_parameters = 0, head_parameters = 0;
    double boundary_bytes = 0;  ///< between stages, one direction, per rank
    EvidenceSeconds layer_evidence{}, ends_evidence{};
};

/// The seconds that deal_layers() balances.
const LayerSeconds& layer_seconds(const Shard&, Recompute);
/// What stage `index` contributes, of stage_layers reads only that entry; and what the tied table
/// and the iteration itself add. price_stages() of 1F1B is iteration_seconds() of these parts. Of
/// the embedding, the head and what the host spends on a micro-batch, a third is forward.
StagePart stage_part(const PoolContext&, const Topology&, const Shard&, const PlanChoice&,
                     std::span<const std::int64_t> stage_layers, std::size_t index);
double fixed_seconds(const PoolContext&, const Topology&, const Shard&, const PlanChoice&);
/// Prices stage_layers under the choice. O(stages) without interleaving, and no allocation; an
/// interleaved schedule is replayed, O(stages vpp micro-batches).
Estimate price_stages(const PoolContext&, const Topology&, const Shard&, const PlanChoice&,
                      std::span<const std::int64_t> stage_layers);
/// No interleaved replay of stage_layers takes less, nor what follows it.
double least_interleaved_seconds(const PoolContext&, const Topology&, const Shard&,
                                 const PlanChoice&, std::span<const std::int64_t> stage_layers);

}  // namespace arena
