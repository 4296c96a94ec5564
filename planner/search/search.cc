// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "base/statistics.h"
#include "planner/models/model.h"
#include "planner/plans/iteration.h"
#include "planner/plans/schedule.h"
#include "planner/search/no_plan.h"

namespace arena {

namespace {

constexpr std::int64_t max_replicas = 1 << 20;
constexpr std::int64_t max_measured_micro_batch = 128;
/// Making a shard takes as long as so many steps of a search.
constexpr std::int64_t shard_steps = 500;
/// Of a budget, for leaving out what fits nowhere; of a grid's, for listing its candidates.
constexpr double filtering_share = 0.2, listing_share = 0.5;
constexpr std::int64_t sure_micro_batch = 16;  ///< tried whether or not it fits, for the reasons

/// Seconds of plans by their bytes; the more bytes, the fewer seconds.
using Front = std::map<double, double>;

/// From here on a plan of so many bytes or more is beaten.
double beaten_from_s(const Front& front, double bytes) {
    const auto above = front.upper_bound(bytes);
    if (above == front.begin()) return std::numeric_limits<double>::infinity();
    return std::nextafter(std::prev(above)->second, std::numeric_limits<double>::infinity());
}

void add_to(Front& front, double bytes, double seconds) {
    if (beaten_from_s(front, bytes) <= seconds) return;
    auto at = front.insert_or_assign(bytes, seconds).first;
    while (++at != front.end() && at->second >= seconds) at = std::prev(front.erase(at));
}

/// Every layer is like one of these, with what reaches it.
std::vector<std::int64_t> distinct_layers(const LayerIndex& index) {
    std::vector<bool> seen(index.list().kinds.size());
    std::vector<std::int64_t> layers;
    for (std::size_t r = 0; r < index.list().runs.size(); ++r) {
        const LayerRun& run = index.list().runs[r];
        const bool counts_kinds = index.form() == LayerIndex::Form::counted;  // reached by the same
        if (counts_kinds && seen[run.kind]) continue;
        seen[run.kind] = true;
        layers.push_back(index.begin_of(r));
        if (run.count > 1 && index.form() != LayerIndex::Form::homogeneous)
            layers.push_back(index.begin_of(r) + 1);
    }
    return layers;
}

/// Whether each layer can be held at all: a middle stage, no replica's share of the state, and no
/// communicators of either.
bool holds_a_layer(const PlanQuery& query, const PoolContext& context, const ShardShape& shape) {
    const MemoryModel memory(context, shape);
    const double limit = real(context.pool.hardware.memory_bytes);
    const std::vector<std::int64_t> layers = distinct_layers(*context.layers);
    for (const Recompute recompute : recompute_kinds(query))
        for (std::int64_t zero = 0; zero <= 3; ++zero) {
            const PlanChoice choice{.stages = 3,
                                    .dp = max_replicas,
                                    .recompute = recompute,
                                    .zero_stage = zero,
                                    .cp = shape.cp,
                                    .ep = shape.ep};
            const double groups = memory.reserved_bytes(choice) - memory.reserved_bytes({});
            const auto fits = [&](std::int64_t layer) {
                const LayerRange one{layer, layer + 1};
                return memory.bytes(choice, 1, {&one, 1}) - memory.buffer_bytes(choice, {&one, 1}) -
                           groups <=
                       limit;
            };
            if (std::all_of(layers.begin(), layers.end(), fits)) return true;
        }
    return false;
}

/// Without the large micro-batches that fit nowhere: they grow without end with the batch.
std::vector<ShardShape> possible_shapes(const PlanQuery& query, const PoolContext& context,
                                        PlanBudget& budget, bool& in_part) {
    std::vector<ShardShape> shapes = shard_shapes(query, context.pool);
    const PlanBudget::Slice slice(budget, filtering_share);
    std::erase_if(shapes, [&](const ShardShape& shape) {
        if (query.pin.micro_batch != 0 || shape.micro_batch <= sure_micro_batch) return false;
        const bool spent = budget.poll(shard_steps);
        in_part = in_part || spent;
        return spent || !holds_a_layer(query, context, shape);
    });
    return shapes;
}

}  // namespace

PoolSearch::PoolSearch(const PlanQuery& query, const PoolContext& context, PlanBudget& budget)
    : query_(query),
      pool_(context.pool),
      steps_{budget},
      context_(context),
      shapes_(possible_shapes(query, context, budget, lost_shapes_)),
      recomputes_(recompute_kinds(query)),
      shards_(shapes_.size()),
      layers_(query, context_, steps_) {}

/// Tensor-parallel groups stay inside a node, so a shard is the same in every grid; groups that
/// share tokens or experts depend on the nodes.
Shard& PoolSearch::shard(std::size_t index, const NodeShape& nodes) {
    PricedShard& slot = shards_[index];
    const ShardShape& shape = shapes_[index];
    const bool spans_nodes = shape.cp * shape.ep * shape.etp > 1;
    if (!slot.shard || (spans_nodes && slot.nodes != nodes)) {
        const Topology topology = spans_nodes
                                      ? topology_of(nodes, 1)
                                      : arena::topology_of(pool_, {pool_.gpu_type, 1, shape.tp, 1});
        if (slot.shard) shard_bytes_ -= slot.shard->bytes();
        slot = {std::make_unique<Shard>(context_, topology, shape), nodes};
        shard_bytes_ += slot.shard->bytes();
        steps_.spend(shard_steps);
    }
    return *slot.shard;
}

/// Shards and candidates by themselves may not take more than the budget has.
bool PoolSearch::has_memory_for(std::size_t shape) {
    const std::size_t most = steps_.budget.limits().bytes / 2;
    const bool has =
        (shards_[shape].shard || shard_bytes_ < most) && open_.size() * sizeof(Candidate) < most;
    steps_.cut_short = steps_.cut_short || !has;
    return has;
}

/// Remembers the first that cannot, for the reasons.
bool PoolSearch::can_be_told(const ShardShape& shape, const PlanChoice& choice) {
    const PlanFacts facts = facts_of(query_.model, shape, choice);
    const bool can = query_.can.tells(needs(facts));
    if (!can && !untold_) untold_ = facts;
    return can;
}

void PoolSearch::list_candidates_of(std::uint32_t at, const NodeShape& nodes, std::int64_t stages) {
    const ShardShape& shape = shapes_[at];
    const Split split = split_grid(query_, nodes, stages, shape);
    if (!split) return;
    const std::vector<std::int64_t> zeros = zero_stages(query_, stages, split.dp * shape.cp);
    for (std::int64_t vpp : vpp_counts(query_, stages, split.micro_batches))
        for (Recompute recompute : recomputes_)
            for (std::int64_t zero : zeros) {
                const PlanChoice choice{.stages = stages,
                                        .dp = split.dp,
                                        .micro_batches = split.micro_batches,
                                        .recompute = recompute,
                                        .zero_stage = zero,
                                        .vpp = vpp,
                                        .cp = shape.cp,
                                        .ep = shape.ep,
                                        .hsdp = query_.pin.hsdp,
                                        .schedule = schedule_of(query_)};
                if (can_be_told(shape, choice))
                    open_.push_back({lower_bound_s(shard(at, nodes), choice), at, choice});
            }
}

void PoolSearch::list_candidates(const NodeShape& nodes, std::int64_t stages) {
    open_.clear();
    untold_.reset();
    const PlanBudget::Slice slice(steps_.budget, listing_share);
    for (std::size_t s = 0; s < shapes_.size() && has_memory_for(s) && !steps_.spend(1); ++s)
        list_candidates_of(static_cast<std::uint32_t>(s), nodes, stages);
    candidates_seen_ += static_cast<std::int64_t>(open_.size());
}

/// The shortest pipeline of this work in whole layers, transfers left out, and one stage's
/// optimizer step; rounding is given away. Interleaved stages have equally many layers.
double PoolSearch::lower_bound_s(const Shard& shard, const PlanChoice& choice) const {
    const LayerSeconds all = shard.seconds(choice.recompute, {0, query_.model.layers});
    const std::int64_t most = (query_.model.layers + choice.stages - 1) / choice.stages;
    const double m = real(choice.micro_batches), mean = all.total() / real(choice.stages);
    const double embedding = shard.embedding_s + shard.embedding_comm_s;
    const double head = shard.head_s + shard.head_comm_s;
    const double least = shard.least_layer_s(choice.recompute);
    const double longest = shard.is_homogeneous()
                               ? shard.seconds(choice.recompute, {0, most}).total()
                               : std::max(mean, shard.slowest_layer_s(choice.recompute));
    const double share = choice.zero_stage >= 1 ? 1 / real(choice.sharing()) : 1;
    const double held =
        shard.is_homogeneous() ? real(most) : real(query_.model.layers) / real(choice.stages);
    const double step =
        share * held * shard.trained_share * shard.layer_parameters * shard.optimizer_parameter_s;
    const double around = real(choice.stages - 1) / real(choice.vpp) * longest + embedding;
    double pipeline = 0;
    if (choice.schedule != Schedule::one_f_one_b)
        pipeline = m * longest;
    else if (choice.vpp == 1)
        pipeline = least_pipeline_seconds(all.total() + embedding + head,
                                          std::max(longest, least + std::max(embedding, head)),
                                          choice.stages, choice.micro_batches, least + head);
    else if (shard.is_homogeneous())
        pipeline = std::max(m * (longest + embedding), around + m * (longest + head));
    else
        pipeline = m * longest;
    return below_bounds * (pipeline + step);
}

bool PoolSearch::partition_fixed(const NodeShape& nodes, const ShardShape& shape,
                                 const PlanChoice& choice,
                                 std::vector<std::int64_t>& stage_layers) {
    const Topology topology = topology_of(nodes, choice.stages);
    const Shard shard(context_, topology, shape);
    double wanted = 0;
    if (!layers_.fit(shard.memory, choice, wanted) ||
        !layers_.partition(topology, shard, choice, std::numeric_limits<double>::infinity()))
        return false;
    stage_layers = layers_.of_stages();
    return true;
}

bool PoolSearch::try_candidate(const Topology& topology, const Candidate& candidate, double limit_s,
                               Best& best) {
    const PlanChoice& choice = candidate.choice;
    const Shard& priced = *shards_[candidate.shard].shard;
    steps_.spend(choice.stages + query_.model.layers / 8);
    double wanted = 0;
    if (!layers_.fit(priced.memory, choice, wanted) ||
        !layers_.partition(topology, priced, choice, limit_s)) {
        best.least_bytes = std::min(best.least_bytes, wanted);
        return false;
    }
    const std::vector<std::int64_t>& stage_layers = layers_.of_stages();
    const Iteration iteration(context_, topology, priced, choice);
    if (choice.is_replayed()) {
        if (iteration.least_replayed_s(stage_layers) >= limit_s) return false;
        const std::int64_t split = choice.schedule == Schedule::one_f_one_b ? 1 : 3;
        steps_.spend(split * std::min(max_replayed_tasks,
                                      choice.stages * choice.vpp * choice.micro_batches));
    }
    const Estimate estimate = iteration.price(stage_layers);
    if (estimate.iteration_s >= limit_s) return false;
    best.iteration_s = estimate.iteration_s;
    best.estimate = estimate;
    best.choice = choice;
    best.shape = priced.shape;
    best.stage_layers = stage_layers;
    return true;
}

GridResult PoolSearch::search(const NodeShape& nodes, std::int64_t stages) {
    steps_.cut_short = false;
    list_candidates(nodes, stages);
    if (candidates_seen_ > max_candidates) return left_out(nodes, stages);
    // The first few are all that is taken of most grids: a heap gives them without sorting the
    // rest.
    std::vector<std::uint32_t> heap(open_.size());
    std::iota(heap.begin(), heap.end(), std::uint32_t{0});
    const auto later = [&](std::uint32_t a, std::uint32_t b) {
        return std::pair(open_[a].bound_s, a) > std::pair(open_[b].bound_s, b);
    };
    std::make_heap(heap.begin(), heap.end(), later);
    const Topology topology = topology_of(nodes, stages);
    Best best;
    for (auto end = heap.end(); end != heap.begin() && !steps_.spend(1); --end) {
        std::pop_heap(heap.begin(), end, later);
        const Candidate& candidate = open_[*(end - 1)];
        if (candidate.bound_s >= best.iteration_s) break;
        try_candidate(topology, candidate, best.iteration_s, best);
    }
    return result(nodes, stages, best);
}

/// At most what the fullest stage of any partition holds: of equal layers, some stage has the mean.
double PoolSearch::least_bytes(const Candidate& candidate) const {
    const PlanChoice& choice = candidate.choice;
    const MemoryModel& memory = shards_[candidate.shard].shard->memory;
    if (!memory.is_homogeneous()) return 0;
    const std::int64_t mean = (query_.model.layers + choice.stages - 1) / choice.stages;
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (std::int64_t i = 0; i < choice.stages; ++i) {
        const double bytes = memory.stage(choice, i).total(mean);
        least = std::min(least, bytes);
        most = std::max(most, bytes);
    }
    return choice.is_replayed() ? most : least;
}

/// Candidates in the order of their bounds, so that those that come late are beaten before they
/// are partitioned or replayed.
std::vector<GridResult> PoolSearch::pareto(const NodeShape& nodes, std::int64_t stages) {
    steps_.cut_short = false;
    list_candidates(nodes, stages);
    if (candidates_seen_ > max_candidates) return {left_out(nodes, stages)};
    std::vector<std::size_t> order(open_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return open_[a].bound_s < open_[b].bound_s;
    });
    const Topology topology = topology_of(nodes, stages);
    std::map<std::size_t, GridResult> found;  // in the candidates' order, which decides ties
    Front front;
    Best least;
    for (const std::size_t at : order) {
        if (steps_.spend(1)) break;
        const double limit_s = beaten_from_s(front, least_bytes(open_[at]));
        if (open_[at].bound_s >= limit_s) continue;
        Best best;
        if (try_candidate(topology, open_[at], limit_s, best)) {
            add_to(front, best.estimate.memory_bytes_per_gpu, best.iteration_s);
            found.emplace(at, result(nodes, stages, best));
        }
        least.least_bytes = std::min(least.least_bytes, best.least_bytes);
    }
    if (found.empty()) return {result(nodes, stages, least)};
    std::vector<GridResult> results;
    for (auto& [at, plan] : found) results.push_back(std::move(plan));
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

Topology PoolSearch::topology_of(const NodeShape& nodes, std::int64_t stages) const {
    return arena::topology_of(pool_, {pool_.gpu_type, nodes.nodes, nodes.gpus_per_node, stages});
}

GridResult PoolSearch::result(const NodeShape& nodes, std::int64_t stages, const Best& best) const {
    GridResult result;
    result.grid = {pool_.gpu_type, nodes.nodes, nodes.gpus_per_node, stages};
    result.candidates = static_cast<std::int64_t>(open_.size());
    result.feasible = std::isfinite(best.iteration_s);
    result.in_part = steps_.cut_short || lost_shapes_;
    if (!result.feasible) {
        result.reason = result.in_part ? nothing_found_in_time
                                       : why_no_plan(query_, pool_,
                                                     {.nodes = nodes,
                                                      .stages = stages,
                                                      .has_shapes = !shapes_.empty(),
                                                      .has_candidates = !open_.empty(),
                                                      .least_bytes = best.least_bytes,
                                                      .untold = untold_});
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

bool PoolSearch::fits_anywhere(const ShardShape& shape) {
    const MemoryModel memory(context_, shape);
    for (const NodeShape& nodes : node_shapes(query_, pool_)) {
        for (std::int64_t stages : stage_counts(query_, nodes.gpus())) {
            const Split split = split_grid(query_, nodes, stages, shape);
            if (!split) continue;
            if (steps_.spend(stages)) return false;
            for (Recompute recompute : recomputes_)
                for (std::int64_t zero : zero_stages(query_, stages, split.dp * shape.cp)) {
                    const PlanChoice choice{.stages = stages,
                                            .dp = split.dp,
                                            .micro_batches = split.micro_batches,
                                            .recompute = recompute,
                                            .zero_stage = zero,
                                            .cp = shape.cp,
                                            .ep = shape.ep,
                                            .hsdp = query_.pin.hsdp,
                                            .schedule = schedule_of(query_)};
                    double wanted = 0;
                    if (can_be_told(shape, choice) && layers_.fit(memory, choice, wanted))
                        return true;
                }
        }
    }
    return false;
}

bool PoolSearch::fits_somewhere() {
    return std::any_of(shapes_.begin(), shapes_.end(),
                       [&](const ShardShape& shape) { return fits_anywhere(shape); });
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
