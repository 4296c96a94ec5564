// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/text.h"
#include "planner/schedule.h"

namespace arena {

namespace {

constexpr std::int64_t max_replicas = 1 << 20;
constexpr std::int64_t max_measured_micro_batch = 128;
constexpr std::int64_t sure_micro_batch = 16;  ///< tried whether or not it fits, for the reasons

double real(std::int64_t value) { return static_cast<double>(value); }

/// The stages of a candidate; only the number of layers matters while layers are of one kind, so
/// each stage is priced once for each number.
class ShardParts final : public StageParts {
  public:
    ShardParts(const PoolContext& context, const Topology& topology, const Shard& shard,
               const PlanChoice& choice, PartBuffers& buffers)
        : context_(context),
          topology_(topology),
          shard_(shard),
          choice_(choice),
          buffers_(buffers),
          layer_s_(layer_seconds(shard, choice.recompute).total()) {
        const auto stages = static_cast<std::size_t>(choice.stages);
        const auto sizes = static_cast<std::size_t>(context.model.layers) + 1;
        buffers_.layers.assign(stages, 1);
        buffers_.parts.assign(stages * sizes, {});
        buffers_.extra_s.assign(stages + 1, 0);
        for (std::size_t i = stages; i-- > 0;)  // what stages take besides their layers
            buffers_.extra_s[i] = buffers_.extra_s[i + 1] +
                                  part(static_cast<std::int64_t>(i), 0, 1).pass_s() - layer_s_;
    }

    StagePart part(std::int64_t stage, std::int64_t begin, std::int64_t end) const override {
        const auto index = static_cast<std::size_t>(stage);
        StagePart& known =
            buffers_.parts[index * static_cast<std::size_t>(context_.model.layers + 1) +
                           static_cast<std::size_t>(end - begin)];
        if (known.bytes == 0) {
            buffers_.layers[index] = end - begin;
            known = stage_part(context_, topology_, shard_, choice_, buffers_.layers, index);
        }
        return known;
    }

    double rest_s(std::int64_t stage, std::int64_t begin) const override {
        return (1 - 1e-12) * (real(context_.model.layers - begin) * layer_s_ +
                              buffers_.extra_s[static_cast<std::size_t>(stage)]);
    }

    PartitionProblem problem(LayerSplit split) const {
        return {.layers = context_.model.layers,
                .stages = choice_.stages,
                .micro_batches = choice_.micro_batches,
                .fixed_s = fixed_seconds(context_, topology_, shard_, choice_),
                .bytes = real(context_.pool.hardware.memory_bytes),
                .split = split};
    }

    LayerDeal balance(std::span<const std::int64_t> capacity) const {
        return {context_.model.layers, layer_s_, shard_.embedding_s + shard_.embedding_comm_s,
                shard_.head_s + shard_.head_comm_s, capacity};
    }

  private:
    const PoolContext& context_;
    const Topology& topology_;
    const Shard& shard_;
    const PlanChoice& choice_;
    PartBuffers& buffers_;
    double layer_s_;
};

/// Whether one layer can be held at all: a middle stage, no replica's share of the state.
bool holds_a_layer(const PlanQuery& query, const PoolContext& context, const ShardShape& shape) {
    const MemoryModel memory(query.model, context.pool.hardware, context.constants.framework,
                             context.precision, shape);
    for (const Recompute recompute : recompute_kinds(query))
        for (std::int64_t zero = 0; zero <= 3; ++zero) {
            const PlanChoice choice{3, max_replicas, 1, recompute, zero, 1, shape.cp, shape.ep};
            if (memory.stage(choice, 1).total(1) <= real(context.pool.hardware.memory_bytes))
                return true;
        }
    return false;
}

/// Without the large micro-batches that fit nowhere: they grow without end with the batch.
std::vector<ShardShape> possible_shapes(const PlanQuery& query, const GpuPool& pool,
                                        const PoolContext& context) {
    std::vector<ShardShape> shapes = shard_shapes(query, pool);
    std::erase_if(shapes, [&](const ShardShape& shape) {
        return query.pin.micro_batch == 0 && shape.micro_batch > sure_micro_batch &&
               !holds_a_layer(query, context, shape);
    });
    return shapes;
}

}  // namespace

PoolSearch::PoolSearch(const PlanQuery& query, const GpuPool& pool, Precision effective)
    : query_(query),
      pool_(pool),
      context_(make_context(query.model, pool, query.global_batch, effective)),
      shapes_(possible_shapes(query, pool, context_)),
      recomputes_(recompute_kinds(query)),
      shards_(shapes_.size()) {}

/// Tensor-parallel groups stay inside a node, so a shard is the same in every grid; groups that
/// share tokens or experts depend on the nodes.
Shard& PoolSearch::shard(std::size_t index, const NodeShape& nodes) {
    PricedShard& slot = shards_[index];
    const ShardShape& shape = shapes_[index];
    const bool spans_nodes = shape.cp * shape.ep > 1;
    if (!slot.shard || (spans_nodes && slot.nodes != nodes)) {
        const Topology topology =
            spans_nodes ? topology_of(nodes, 1)
                        : make_topology(pool_.hardware, {pool_.gpu_type, 1, shape.tp, 1},
                                        pool_.gpus_per_node);
        slot = {std::make_unique<Shard>(context_, topology, shape), nodes};
    }
    return *slot.shard;
}

void PoolSearch::list_candidates(const NodeShape& nodes, std::int64_t stages) {
    open_.clear();
    for (std::size_t s = 0; s < shapes_.size(); ++s) {
        const ShardShape& shape = shapes_[s];
        const Split split = split_grid(query_, nodes, stages, shape);
        if (!split) continue;
        const std::vector<std::int64_t> zeros = zero_stages(query_, stages, split.dp);
        for (std::int64_t vpp : vpp_counts(query_, stages, split.micro_batches))
            for (Recompute recompute : recomputes_)
                for (std::int64_t zero : zeros) {
                    const PlanChoice choice{stages,    split.dp, split.micro_batches,
                                            recompute, zero,     vpp,
                                            shape.cp,  shape.ep};
                    open_.push_back({lower_bound_s(shard(s, nodes), choice),
                                     static_cast<std::uint32_t>(s), choice});
                }
    }
    candidates_seen_ += static_cast<std::int64_t>(open_.size());
}

/// The shortest pipeline of this work in whole layers, transfers left out, and one stage's
/// optimizer step; rounding is given away. Interleaved stages have equally many layers.
double PoolSearch::lower_bound_s(const Shard& shard, const PlanChoice& choice) const {
    const double layer = layer_seconds(shard, choice.recompute).total();
    const std::int64_t most = (query_.model.layers + choice.stages - 1) / choice.stages;
    const double embedding = shard.embedding_s + shard.embedding_comm_s;
    const double head = shard.head_s + shard.head_comm_s;
    const double share = choice.zero_stage >= 1 ? 1 / real(choice.dp) : 1;
    const double step = share * real(most) * shard.layer_parameters * shard.optimizer_parameter_s;
    const double m = real(choice.micro_batches), stage = real(most) * layer;
    const double pipeline =
        choice.vpp > 1
            ? std::max(m * (stage + embedding), real(choice.stages - 1) / real(choice.vpp) * stage +
                                                    embedding + m * (stage + head))
            : least_pipeline_seconds(real(query_.model.layers) * layer + embedding + head, stage,
                                     choice.stages, choice.micro_batches);
    return (1 - 1e-12) * (pipeline + step);
}

bool PoolSearch::has_room(const MemoryModel& memory, const PlanChoice& choice,
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

/// The fastest layers_ below limit_s.
bool PoolSearch::deal(const Topology& topology, const Shard& shard, const PlanChoice& choice,
                      double limit_s) {
    const ShardParts parts(context_, topology, shard, choice, buffers_);
    PartitionProblem problem = parts.problem(query_.can.layers);
    if (choice.vpp == 1 &&
        least_pipeline_seconds(parts.rest_s(0, 0), 0, choice.stages, choice.micro_batches) +
                problem.fixed_s >=
            limit_s)
        return false;
    if (choice.vpp > 1) {  // one deal: bytes are what is asked
        problem.split = LayerSplit::even;
        return solver_.solve(problem, parts, std::numeric_limits<double>::infinity(), layers_);
    }
    layers_.resize(static_cast<std::size_t>(choice.stages));
    if (problem.split != LayerSplit::any) return solver_.solve(problem, parts, limit_s, layers_);
    // The deal with the least slowest stage is nearly always the best: a tight limit for the exact
    // one.
    if (!deal_layers(parts.balance(capacity_), layers_)) return false;
    const double balanced_s = iteration_seconds(problem, parts, layers_);
    return solver_.solve(problem, parts, std::min(limit_s, balanced_s), layers_) ||
           balanced_s < limit_s;
}

bool PoolSearch::try_candidate(const Topology& topology, const Candidate& candidate, double limit_s,
                               Best& best) {
    const PlanChoice& choice = candidate.choice;
    const Shard& priced = *shards_[candidate.shard].shard;
    double wanted = 0;
    if (!has_room(priced.memory, choice, wanted)) {
        best.least_bytes = std::min(best.least_bytes, wanted);
        return false;
    }
    if (!deal(topology, priced, choice, limit_s)) {
        best.least_bytes = std::min(best.least_bytes, wanted);
        return false;
    }
    if (choice.vpp > 1 &&
        least_interleaved_seconds(context_, topology, priced, choice, layers_) >= limit_s)
        return false;
    const Estimate estimate = price_stages(context_, topology, priced, choice, layers_);
    if (estimate.iteration_s >= limit_s) return false;
    best.iteration_s = estimate.iteration_s;
    best.estimate = estimate;
    best.choice = choice;
    best.shape = priced.shape;
    best.stage_layers.assign(layers_.begin(), layers_.end());
    return true;
}

GridResult PoolSearch::search(const NodeShape& nodes, std::int64_t stages) {
    prepare(stages);
    list_candidates(nodes, stages);
    if (candidates_seen_ > max_candidates) return left_out(nodes, stages);
    std::stable_sort(open_.begin(), open_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.bound_s < b.bound_s; });
    const Topology topology = topology_of(nodes, stages);
    Best best;
    for (const Candidate& candidate : open_) {
        if (candidate.bound_s >= best.iteration_s) break;
        try_candidate(topology, candidate, best.iteration_s, best);
    }
    return result(nodes, stages, best);
}

std::vector<GridResult> PoolSearch::pareto(const NodeShape& nodes, std::int64_t stages) {
    prepare(stages);
    list_candidates(nodes, stages);
    if (candidates_seen_ > max_candidates) return {left_out(nodes, stages)};
    const Topology topology = topology_of(nodes, stages);
    std::vector<GridResult> results;
    Best least;
    for (const Candidate& candidate : open_) {
        Best best;
        if (try_candidate(topology, candidate, std::numeric_limits<double>::infinity(), best))
            results.push_back(result(nodes, stages, best));
        else
            least.least_bytes = std::min(least.least_bytes, best.least_bytes);
    }
    if (results.empty()) return {result(nodes, stages, least)};
    keep_pareto(results);
    return results;
}

void keep_pareto(std::vector<GridResult>& results) {
    std::stable_sort(results.begin(), results.end(), [](const GridResult& a, const GridResult& b) {
        const Estimate &x = a.estimate, &y = b.estimate;
        return std::pair(x.iteration_s, x.memory_bytes_per_gpu) <
               std::pair(y.iteration_s, y.memory_bytes_per_gpu);
    });
    double least = std::numeric_limits<double>::infinity();
    std::erase_if(results, [&](const GridResult& r) {
        const bool beaten = !r.feasible || r.estimate.memory_bytes_per_gpu >= least;
        if (!beaten) least = r.estimate.memory_bytes_per_gpu;
        return beaten;
    });
}

void PoolSearch::prepare(std::int64_t stages) {
    capacity_.resize(static_cast<std::size_t>(stages));
}

Topology PoolSearch::topology_of(const NodeShape& nodes, std::int64_t stages) const {
    return make_topology(pool_.hardware, {pool_.gpu_type, nodes.nodes, nodes.gpus_per_node, stages},
                         pool_.gpus_per_node);
}

GridResult PoolSearch::result(const NodeShape& nodes, std::int64_t stages, const Best& best) const {
    GridResult result;
    result.grid = {pool_.gpu_type, nodes.nodes, nodes.gpus_per_node, stages};
    result.candidates = static_cast<std::int64_t>(open_.size());
    result.feasible = std::isfinite(best.iteration_s);
    if (!result.feasible) {
        result.reason = reason(nodes, stages, best);
        return result;
    }
    result.plan = uniform_plan(best.shape, best.choice, best.stage_layers);
    result.estimate = best.estimate;
    return result;
}

GridResult PoolSearch::left_out(const NodeShape& nodes, std::int64_t stages) const {
    GridResult result;
    result.grid = {pool_.gpu_type, nodes.nodes, nodes.gpus_per_node, stages};
    result.reason = fmt::format(
        "search: left out after {} candidates of {}; ask for fewer GPUs or types, or pin the plan",
        max_candidates, pool_.gpu_type);
    return result;
}

std::string PoolSearch::reason(const NodeShape& nodes, std::int64_t stages,
                               const Best& best) const {
    const std::int64_t layers = query_.model.layers;
    if (!open_.empty()) {
        const double limit = real(pool_.hardware.memory_bytes);
        if (best.least_bytes <= limit)
            return fmt::format(
                "memory: {} layers fit {} stages, but not in shares that the launcher "
                "can be told",
                layers, stages);
        const std::string short_by = human_bytes(std::max(0.0, best.least_bytes - limit));
        return fmt::format("memory: the smallest plan needs {} per GPU, {} more than the {} of {}",
                           human_bytes(best.least_bytes), short_by, human_bytes(limit),
                           pool_.hardware.name);
    }
    if (stages > layers)
        return fmt::format("layers: {} stages, but {} has {} layers", stages, query_.model.name,
                           layers);
    if (!can_share_layers(query_, stages))
        return fmt::format(
            "layers: the launcher wants the same number on every stage, and {} does "
            "not divide the {} of {}",
            stages, layers, query_.model.name);
    if (query_.pin.vpp > 1)
        return fmt::format(
            "plan: vpp{} wants at least 2 stages of equally many layers, a multiple "
            "of {}, and micro-batches that are a multiple of the {} stages",
            query_.pin.vpp, query_.pin.vpp, stages);
    if (tp_degrees(query_, pool_).empty())
        return fmt::format("heads: tp{} does not divide the {} heads", query_.pin.tp,
                           query_.model.heads);
    if (shapes_.empty())
        return fmt::format(
            "plan: {}: cp must split {} tokens into 2 cp equal pieces, and ep divide "
            "the {} experts",
            to_string(query_.pin), query_.model.seq_length, query_.model.experts);
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

bool PoolSearch::fits_anywhere(const ShardShape& shape) {
    const MemoryModel memory(query_.model, pool_.hardware, context_.precision, shape);
    for (const NodeShape& nodes : node_shapes(query_, pool_)) {
        for (std::int64_t stages : stage_counts(query_, nodes.gpus())) {
            const Split split = split_grid(query_, nodes, stages, shape);
            if (!split) continue;
            prepare(stages);
            for (Recompute recompute : recomputes_)
                for (std::int64_t zero : zero_stages(query_, stages, split.dp)) {
                    double wanted = 0;
                    if (has_room(memory,
                                 {stages, split.dp, split.micro_batches, recompute, zero, 1,
                                  shape.cp, shape.ep},
                                 wanted))
                        return true;
                }
        }
    }
    return false;
}

std::vector<ShardShape> PoolSearch::fitting_shapes() {
    const auto is_asked = [](std::int64_t value, std::int64_t pinned) {
        return pinned != 0 || std::has_single_bit(static_cast<std::uint64_t>(value));
    };
    std::vector<ShardShape> shapes;
    for (const ShardShape& shape : shapes_)
        if (is_asked(shape.tp, query_.pin.tp) &&
            is_asked(shape.micro_batch, query_.pin.micro_batch) &&
            is_asked(shape.cp, query_.pin.cp) && is_asked(shape.ep, query_.pin.ep) &&
            shape.micro_batch <= std::max(max_measured_micro_batch, query_.pin.micro_batch) &&
            fits_anywhere(shape))
            shapes.push_back(shape);
    return shapes;
}

}  // namespace arena
