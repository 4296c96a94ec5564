// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "planner/schedule.h"

namespace arena {

namespace {

constexpr Recompute recomputes[] = {Recompute::none, Recompute::selective, Recompute::full};

double real(std::int64_t value) { return static_cast<double>(value); }

Plan to_plan(const PlanChoice& choice, const ShardShape& shape,
             std::span<const std::int64_t> layers) {
    Plan plan;
    plan.stage_layers.assign(layers.begin(), layers.end());
    plan.stage_dp.assign(layers.size(), choice.dp);
    plan.stage_tp.assign(layers.size(), shape.tp);
    plan.micro_batch = shape.micro_batch;
    plan.num_micro_batches = choice.micro_batches;
    plan.recompute = choice.recompute;
    plan.zero_stage = choice.zero_stage;
    plan.sequence_parallel = shape.sequence_parallel;
    plan.vpp = choice.vpp;
    plan.cp = choice.cp;
    plan.ep = choice.ep;
    return plan;
}

}  // namespace

PoolSearch::PoolSearch(const PlanQuery& query, const GpuPool& pool, Precision effective)
    : query_(query),
      pool_(pool),
      context_(make_context(query.model, pool, query.global_batch, effective)),
      tp_degrees_(tp_degrees(query, pool)),
      micro_batches_(micro_batch_sizes(query)),
      shards_(tp_degrees_.size() * micro_batches_.size()) {}

/// Tensor-parallel groups stay inside a node, so a shard is the same in every grid.
Shard& PoolSearch::shard(std::size_t tp_index, std::size_t mb_index) {
    std::unique_ptr<Shard>& slot = shards_[tp_index * micro_batches_.size() + mb_index];
    if (!slot) {
        const std::int64_t tp = tp_degrees_[tp_index];
        const Topology node =
            make_topology(pool_.hardware, {pool_.gpu_type, 1, tp, 1}, pool_.gpus_per_node);
        slot = std::make_unique<Shard>(
            context_, node,
            ShardShape{tp, micro_batches_[mb_index], default_sequence_parallel(query_.model, tp)});
    }
    return *slot;
}

bool PoolSearch::fill_capacity(const MemoryModel& memory, const PlanChoice& choice,
                               double& wanted_bytes) {
    const double limit = real(pool_.hardware.memory_bytes);
    const std::int64_t even = (query_.model.layers + choice.stages - 1) / choice.stages;
    std::int64_t room = 0;
    bool fits = true;
    wanted_bytes = 0;
    for (std::int64_t i = 0; i < choice.stages; ++i) {
        const StageMemory stage = memory.stage(choice, i);
        const double layers = std::floor((limit - stage.fixed_bytes) / stage.layer_bytes);
        const auto most =
            static_cast<std::int64_t>(std::clamp(layers, 0.0, real(query_.model.layers)));
        capacity_[static_cast<std::size_t>(i)] = most;
        room += most;
        fits = fits && most >= 1;
        wanted_bytes = std::max(wanted_bytes, stage.total(even));
    }
    return fits && room >= query_.model.layers;
}

/// Pipeline time were the stages perfectly balanced; what follows the pipeline only adds.
double PoolSearch::lower_bound_s(const Shard& shard, const PlanChoice& choice) const {
    const double work = real(query_.model.layers) * layer_seconds(shard, choice.recompute).total() +
                        shard.embedding_s + shard.head_s;
    return work * (1 + real(choice.micro_batches - 1) / real(choice.stages));
}

void PoolSearch::try_plan(const Topology& topology, const Shard& shard, const PlanChoice& choice,
                          Best& best) {
    best.any_split = true;
    if (lower_bound_s(shard, choice) >= best.iteration_s) return;
    double wanted = 0;
    if (!fill_capacity(shard.memory, choice, wanted)) {
        best.least_bytes = std::min(best.least_bytes, wanted);
        return;
    }
    const LayerDeal deal{query_.model.layers, layer_seconds(shard, choice.recompute).total(),
                         shard.embedding_s + shard.embedding_comm_s,
                         shard.head_s + shard.head_comm_s, capacity_};
    if (!deal_layers(deal, layers_)) return;
    const Estimate estimate = price_stages(context_, topology, shard, choice, layers_, stage_s_);
    if (estimate.iteration_s >= best.iteration_s) return;
    best.iteration_s = estimate.iteration_s;
    best.estimate = estimate;
    best.choice = choice;
    best.shape = shard.shape;
    best.stage_layers.assign(layers_.begin(), layers_.end());
}

GridResult PoolSearch::search(const NodeShape& nodes, std::int64_t stages) {
    GridResult result;
    result.grid = {pool_.gpu_type, nodes.nodes, nodes.gpus_per_node, stages};
    const Topology topology = make_topology(pool_.hardware, result.grid, pool_.gpus_per_node);
    capacity_.resize(static_cast<std::size_t>(stages));
    layers_.resize(capacity_.size());
    stage_s_.resize(capacity_.size());
    Best best;
    best.stage_layers.reserve(capacity_.size());
    for (std::size_t t = 0; t < tp_degrees_.size(); ++t) {
        for (std::size_t b = 0; b < micro_batches_.size(); ++b) {
            const Split split =
                split_grid(query_, nodes, stages, tp_degrees_[t], micro_batches_[b]);
            if (!split) continue;
            const Shard& priced = shard(t, b);
            for (Recompute recompute : recomputes)
                for (std::int64_t zero = 0; zero <= (split.dp > 1 ? 1 : 0); ++zero)
                    try_plan(topology, priced,
                             {stages, split.dp, split.micro_batches, recompute, zero}, best);
        }
    }
    result.feasible = std::isfinite(best.iteration_s);
    if (!result.feasible) {
        result.reason = reason(nodes, stages, best);
        return result;
    }
    result.plan = to_plan(best.choice, best.shape, best.stage_layers);
    result.estimate = best.estimate;
    return result;
}

std::string PoolSearch::reason(const NodeShape& nodes, std::int64_t stages,
                               const Best& best) const {
    if (best.any_split) {
        const double limit = real(pool_.hardware.memory_bytes);
        const std::string short_by = human_bytes(std::max(0.0, best.least_bytes - limit));
        return fmt::format("memory: the smallest plan needs {} per GPU, {} more than the {} of {}",
                           human_bytes(best.least_bytes), short_by, human_bytes(limit),
                           pool_.hardware.name);
    }
    if (!is_priced(query_.pin))
        return fmt::format("plan: {}: vpp, cp and ep other than 1 are not priced yet",
                           to_string(query_.pin));
    if (stages > query_.model.layers)
        return fmt::format("layers: {} stages, but {} has {} layers", stages, query_.model.name,
                           query_.model.layers);
    if (tp_degrees_.empty())
        return fmt::format("heads: tp{} does not divide the {} heads", query_.pin.tp,
                           query_.model.heads);
    if (nodes.gpus_per_node % std::max<std::int64_t>(1, query_.pin.tp) != 0)
        return fmt::format("tp: groups of tp{} do not fill nodes of {} GPUs", query_.pin.tp,
                           nodes.gpus_per_node);
    if (nodes.gpus() % stages != 0)
        return fmt::format("stages: {} GPUs cannot be shared by {} stages", nodes.gpus(), stages);
    return fmt::format(
        "batch: {} samples cannot be split evenly over the {} GPUs of a stage with any "
        "tensor-parallel degree that fits {} heads and a node of {} GPUs",
        query_.global_batch, nodes.gpus() / stages, query_.model.heads, nodes.gpus_per_node);
}

bool PoolSearch::fits_anywhere(const MemoryModel& memory, std::int64_t tp,
                               std::int64_t micro_batch) {
    for (const NodeShape& nodes : node_shapes(query_, pool_)) {
        for (std::int64_t stages : stage_counts(query_, nodes.gpus())) {
            const Split split = split_grid(query_, nodes, stages, tp, micro_batch);
            if (!split) continue;
            capacity_.resize(static_cast<std::size_t>(stages));
            for (Recompute recompute : recomputes)
                for (std::int64_t zero = 0; zero <= (split.dp > 1 ? 1 : 0); ++zero) {
                    double wanted = 0;
                    if (fill_capacity(memory,
                                      {stages, split.dp, split.micro_batches, recompute, zero},
                                      wanted))
                        return true;
                }
        }
    }
    return false;
}

std::vector<ShardShape> PoolSearch::fitting_shapes() {
    std::vector<ShardShape> shapes;
    for (std::int64_t tp : tp_degrees_) {
        for (std::int64_t micro_batch : micro_batches_) {
            const ShardShape shape{tp, micro_batch, default_sequence_parallel(query_.model, tp)};
            const MemoryModel memory(query_.model, pool_.hardware, context_.precision, shape);
            if (fits_anywhere(memory, tp, micro_batch)) shapes.push_back(shape);
        }
    }
    return shapes;
}

}  // namespace arena
