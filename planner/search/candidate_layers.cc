// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search/candidate_layers.h"

#include <algorithm>
#include <limits>

#include "base/statistics.h"
#include "planner/plans/schedule.h"
#include "planner/search/grids.h"

namespace arena {

namespace {

/// Fills each stage in turn as far as it may be; false when layers are left over, or a stage may
/// hold none.
template <typename May>
bool fill_stages(std::int64_t layers, std::int64_t stages, May may,
                 std::vector<std::int64_t>& stage_layers) {
    stage_layers.assign(static_cast<std::size_t>(stages), 0);
    std::int64_t begin = 0;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
        const std::int64_t most = layers - begin - (stages - stage - 1);
        std::int64_t fits = 0, above = most + 1;
        while (above - fits > 1) {
            const std::int64_t middle = (fits + above) / 2;
            (may(stage, LayerRange{begin, begin + middle}) ? fits : above) = middle;
        }
        if (fits == 0) return false;
        stage_layers[static_cast<std::size_t>(stage)] = fits;
        begin += fits;
    }
    return begin == layers;
}

/// The partition with the least longest stage by work_s(stage, range), within 1e-6 of it, where
/// every stage fits(stage, range) and has at least one layer. Neither may get better when a range
/// grows at either end. Filling each stage in turn finds a partition below a level wherever there
/// is one, unless a layer fits a later stage and not an earlier one: then this may miss it, and be
/// false though a partition fits. O(stages log(layers)) calls for each of 20 levels.
template <typename Work, typename Fits>
bool balance_layers(std::int64_t layers, std::int64_t stages, Work work_s, Fits fits,
                    std::vector<std::int64_t>& stage_layers) {
    if (!fill_stages(layers, stages, fits, stage_layers)) return false;
    double level_s = 0, below_s = 0;
    std::int64_t begin = 0;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
        const std::int64_t end = begin + stage_layers[static_cast<std::size_t>(stage)];
        level_s = std::max(level_s, work_s(stage, LayerRange{begin, end}));
        begin = end;
    }
    std::vector<std::int64_t> trial;
    for (int halvings = 0; halvings < 20; ++halvings) {
        const double middle_s = (below_s + level_s) / 2;
        const bool does = fill_stages(
            layers, stages,
            [&](std::int64_t stage, LayerRange range) {
                return work_s(stage, range) <= middle_s && fits(stage, range);
            },
            trial);
        if (does) stage_layers = trial;
        (does ? level_s : below_s) = middle_s;
    }
    return true;
}

}  // namespace

CandidateLayers::CandidateLayers(const PlanQuery& query, const PoolContext& context,
                                 SearchSteps& steps)
    : query_(query), context_(context), steps_(steps), solver_(steps.budget) {
    solver_.allow(max_partition_steps);
}

/// Where layers differ no partition fits unless the greatest stages that fit, one after the other
/// and some of them empty, hold all layers: a later stage keeps fewer micro-batches, and may take
/// what an earlier one cannot. The exact program knows better.
bool CandidateLayers::fit(const MemoryModel& memory, const PlanChoice& choice,
                          double& wanted_bytes) {
    const double limit = real(context_.pool.hardware.memory_bytes);
    const std::int64_t layers = query_.model.layers, stages = choice.stages;
    const bool is_homogeneous = memory.is_homogeneous();
    capacity_.resize(static_cast<std::size_t>(stages));
    std::int64_t room = 0;
    bool fits = true;
    wanted_bytes = 0;
    for (std::int64_t i = 0; i < stages; ++i) {
        const LayerRange even{i * layers / stages, (i + 1) * layers / stages};
        const StageMemory stage = is_homogeneous ? memory.stage(choice, i) : StageMemory{};
        const std::int64_t most =
            is_homogeneous
                ? stage.capacity(layers, limit)
                : memory.capacity(choice, i, room, layers - room - (stages - i - 1), limit);
        capacity_[static_cast<std::size_t>(i)] = most;
        room += most;
        fits = fits && most >= 1;
        wanted_bytes =
            std::max(wanted_bytes, is_homogeneous ? stage.total((layers + stages - 1) / stages)
                                                  : memory.bytes(choice, i, {&even, 1}));
    }
    if (is_homogeneous) return fits && room >= layers;
    const bool lies_apart = choice.is_replayed();  // partitioned once, and asked then
    return lies_apart || room >= layers;
}

/// The partition with the least slowest stage into layers_, transfers aside.
bool CandidateLayers::balance(const Shard& shard, const PlanChoice& choice) {
    const double first_s = shard.embedding_s + shard.embedding_comm_s;
    const double last_s = shard.head_s + shard.head_comm_s;
    if (shard.is_homogeneous())
        return partition_layers({.layers = query_.model.layers,
                                 .layer_s = shard.seconds(choice.recompute, {0, 1}).total(),
                                 .first_s = first_s,
                                 .last_s = last_s,
                                 .capacity = capacity_},
                                layers_);
    const auto work_s = [&](std::int64_t stage, LayerRange range) {
        if (steps_.spend(1)) return std::numeric_limits<double>::infinity();
        return shard.seconds(choice.recompute, range).total() + (stage == 0 ? first_s : 0) +
               (stage + 1 == choice.stages ? last_s : 0);
    };
    const double limit = real(context_.pool.hardware.memory_bytes);
    const auto fits = [&](std::int64_t stage, LayerRange range) {
        const LayerRange own[] = {range};
        return !steps_.spend(1) &&
               shard.memory.bytes(choice, stage, own) - shard.memory.buffer_bytes(choice, own) <=
                   limit;
    };
    return balance_layers(query_.model.layers, choice.stages, work_s, fits, layers_);
}

/// The fastest layers_ below limit_s.
bool CandidateLayers::partition(const Topology& topology, const Shard& shard,
                                const PlanChoice& choice, double limit_s) {
    ShardParts parts(context_, topology, shard, choice, buffers_);
    PartitionProblem problem = parts.problem(query_.can.split(choice.stages));
    const auto beats_limit = [&](double longest_s) {
        return least_pipeline_seconds(parts.rest_s(0, 0), longest_s, choice.stages,
                                      choice.micro_batches, parts.last_s()) +
                   problem.ends_s + problem.fixed_s <
               limit_s;
    };
    if (!choice.is_replayed() && !beats_limit(shard.is_homogeneous() ? parts.longest_s(0, 0) : 0))
        return false;
    if (choice.is_replayed()) {  // one partition: bytes are what is asked
        problem.split = LayerSplit::even;
        return solver_.solve(problem, parts, std::numeric_limits<double>::infinity(), layers_);
    }
    layers_.resize(static_cast<std::size_t>(choice.stages));
    if (problem.split != LayerSplit::any) return partition_evenly(problem, parts, limit_s);
    if (!shard.is_homogeneous()) {
        const std::int64_t looked_at = problem.stages * problem.layers;
        const bool has_room = looked_at <= 8 * max_part_rows;
        if (has_room && looked_at <= solver_.steps_left())
            parts.find_longest(steps_.budget);
        else
            parts.forget_longest();
        solver_.spend(looked_at);
        if (!beats_limit(parts.longest_s(0, 0))) return false;
    }
    // The partition with the least slowest stage is nearly always the best: a tight limit for the
    // exact one.
    if (!balance(shard, choice))
        return !shard.is_homogeneous() && solver_.solve(problem, parts, limit_s, layers_);
    const double balanced_s = iteration_seconds(problem, parts, layers_);
    return solver_.solve(problem, parts, std::min(limit_s, balanced_s), layers_) ||
           balanced_s < limit_s;
}

/// The evenest partition of all stands where there are too many to try.
bool CandidateLayers::partition_evenly(const PartitionProblem& problem, const ShardParts& parts,
                                       double limit_s) {
    const bool found = solver_.solve(problem, parts, limit_s, layers_);
    if (!solver_.ran_out()) return found;
    const std::vector<std::int64_t> spread =
        spread_layers(problem.split, problem.layers, problem.stages);
    if (!expresses(problem.split, spread)) return found;
    const double spread_s = iteration_seconds(problem, parts, spread);
    if (spread_s >= (found ? iteration_seconds(problem, parts, layers_) : limit_s)) return found;
    layers_ = spread;
    return true;
}

}  // namespace arena
