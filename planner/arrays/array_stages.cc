// SPDX-License-Identifier: GPL-2.0-or-later
// See array_stages.h.
#include "planner/arrays/array_stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/profile.h"
#include "planner/plans/iteration.h"
#include "planner/search/grids.h"
#include "planner/search/search.h"

namespace arena {
namespace {

/// So many ticks at most in an instance: far below array::most_ticks, so that rounding up cannot
/// get there.
constexpr double most_ticks_used = 1e9;

/// A float, its two moments and a copy in two bytes: train/array/states.h.
constexpr double home_bytes_per_parameter = 14;

array::Ticks ticks(double seconds, double tick_s) {
    return static_cast<array::Ticks>(std::ceil(seconds / tick_s));
}

array::Bytes whole_bytes(double bytes) { return static_cast<array::Bytes>(std::ceil(bytes)); }

/// One member's whole batch at a time on each stage.
PlanChoice choice_of(std::int64_t stages, Recompute recompute) {
    return {.stages = stages, .recompute = recompute};
}

/// Layers of each stage, so that many members take the least time: the slowest stage counts, where
/// for one member alone only the sum does. Where the memory is too small for so many, as it fits.
bool partition(PoolSearch& search, const NodeShape& nodes, const ShardShape& shape,
               std::int64_t stages, std::vector<std::int64_t>& layers) {
    PlanChoice choice = choice_of(stages, Recompute::full);
    for (choice.micro_batches = 8 * stages; choice.micro_batches >= 1; choice.micro_batches /= 2)
        if (search.partition_fixed(nodes, shape, choice, layers)) return true;
    return false;
}

double parameters_of(const Shard& shard, LayerRange range, std::int64_t index,
                     std::int64_t stages) {
    double parameters = shard.parameters(range)[0];
    if (index == 0) parameters += shard.embedding_parameters;
    if (index + 1 == stages) parameters += shard.head_parameters;
    return parameters;
}

/// Prices stages of one partition.
class StagePricer {
  public:
    StagePricer(const PoolContext& context, const Topology& topology, const ShardShape& shape,
                std::int64_t stages)
        : context_(context),
          shard_(context, topology, shape),
          kept_(choice_of(stages, Recompute::none)),
          recomputed_(choice_of(stages, Recompute::full)),
          kept_iteration_(context, topology, shard_, kept_),
          recomputed_iteration_(context, topology, shard_, recomputed_) {}

    [[nodiscard]] ArrayStage price(std::int64_t index, LayerRange range) const {
        const StagePart kept = kept_iteration_.part(index, range);
        const StagePart again = recomputed_iteration_.part(index, range);
        const double parameters = parameters_of(shard_, range, index, kept_.stages);
        ArrayStage stage;
        stage.layers = range.size();
        stage.transfer_s = kept.boundary_s / 2;
        stage.forward_s = std::max(kept.forward_s - stage.transfer_s, 0.0);
        stage.backward_s = std::max(kept.backward_s - stage.transfer_s, 0.0);
        stage.recompute_s = std::max(again.pass_s() - kept.pass_s(), 0.0);
        stage.update_s = kept.step_s + kept.host_s;
        stage.weight_bytes = parameters * element_bytes(context_.precision);
        stage.state_bytes = parameters * state_bytes_per_parameter(context_.precision, 0, 1);
        stage.home_bytes = parameters * home_bytes_per_parameter;
        // The first one keeps what comes out of the embedding, but no images.
        const bool reads_data = index == 0 && shard_.embedding_parameters <= 0;
        stage.checkpoint_bytes = reads_data ? 0 : shard_.boundary_bytes(range.begin);
        stage.working_bytes = std::max(again.bytes - stage.state_bytes - stage.checkpoint_bytes -
                                           context_.pool.hardware.reserved_bytes,
                                       0.0);
        stage.activation_bytes =
            std::max(kept.bytes - stage.state_bytes - context_.pool.hardware.reserved_bytes, 0.0);
        return stage;
    }

  private:
    const PoolContext& context_;
    Shard shard_;
    PlanChoice kept_, recomputed_;
    Iteration kept_iteration_, recomputed_iteration_;
};

template <typename Value>
std::vector<std::vector<Value>> for_each_member(const std::vector<Value>& row,
                                                std::int64_t members) {
    return {static_cast<std::size_t>(members), row};
}

/// The same row of stages for every member.
template <typename Of>
array::StageTimes::Table times(const std::vector<ArrayStage>& stages, std::int64_t members, Of of) {
    std::vector<array::Ticks> row;
    for (const ArrayStage& stage : stages) row.push_back(of(stage));
    return for_each_member(row, members);
}

template <typename Of>
array::ByteTable bytes(const std::vector<ArrayStage>& stages, std::int64_t members, Of of) {
    std::vector<array::Bytes> row;
    for (const ArrayStage& stage : stages) row.push_back(whole_bytes(of(stage)));
    return for_each_member(row, members);
}

double seconds_of(const ArrayStage& stage) {
    return stage.forward_s + stage.backward_s + stage.recompute_s + stage.update_s +
           2 * stage.transfer_s;
}

array::StageTimes stage_times(const std::vector<ArrayStage>& stages, std::int64_t members,
                              double tick_s) {
    array::StageTimes table;
    table.device_of_stage.resize(stages.size());
    std::iota(table.device_of_stage.begin(), table.device_of_stage.end(), 0);
    const auto of = [&](double ArrayStage::*seconds) {
        return times(stages, members,
                     [&](const ArrayStage& s) { return ticks(s.*seconds, tick_s); });
    };
    table.forward = of(&ArrayStage::forward_s);
    table.backward = of(&ArrayStage::backward_s);
    table.recompute = of(&ArrayStage::recompute_s);
    table.update = of(&ArrayStage::update_s);
    const std::vector<ArrayStage> senders(stages.begin(), stages.end() - 1);
    table.transfer_forward =
        times(senders, members, [&](const ArrayStage& s) { return ticks(s.transfer_s, tick_s); });
    table.transfer_backward = table.transfer_forward;
    return table;
}

}  // namespace

Result<std::vector<ArrayStage>> array_stages(const PlanQuery& query, const GpuPool& pool,
                                             std::int64_t stages) {
    const Model& model = query.model;
    if (ties_table(model) && stages > 1)
        return no_error(fmt::format(
            "{} ties its output head to its embedding, and a shared pipeline updates each stage by "
            "itself",
            model.name));
    if (stages < 1 || stages > model.layers)
        return no_error(fmt::format("{} layers are not {} stages", model.layers, stages));
    const auto context = prepare(model, pool, query.global_batch);
    if (!context)
        return no_error(
            fmt::format("{} does not compute in the model's precision", pool.hardware.name));
    PlanBudget budget;
    PoolSearch search(query, *context, budget);
    const NodeShape nodes = node_shape(stages, pool.gpus_per_node);
    const ShardShape shape{.micro_batch = query.global_batch};
    std::vector<std::int64_t> layers;
    if (!partition(search, nodes, shape, stages, layers))
        return no_error(fmt::format("a stage of {} does not fit {} in memory with the batch of {}",
                                    stages, pool.hardware.name, query.global_batch));
    const Topology topology =
        topology_of(pool, {pool.gpu_type, nodes.nodes, nodes.gpus_per_node, stages});
    const StagePricer pricer(*context, topology, shape, stages);
    std::vector<ArrayStage> priced;
    LayerRange range;
    for (std::int64_t i = 0; i < stages; ++i) {
        range = {range.end, range.end + layers[static_cast<std::size_t>(i)]};
        priced.push_back(pricer.price(i, range));
    }
    return priced;
}

Result<ArrayProblem> array_problem(const std::vector<ArrayStage>& stages, std::int64_t members,
                                   int buffers, double reserved_bytes) {
    double all_s = 0;
    for (const ArrayStage& stage : stages) all_s += seconds_of(stage);
    ArrayProblem problem;
    problem.tick_s = std::max(1e-6, all_s * static_cast<double>(members) / most_ticks_used);
    auto instance = array::make_instance("array", stage_times(stages, members, problem.tick_s));
    if (!instance) return instance.error();
    problem.instance = std::move(*instance);
    problem.needs.state = bytes(stages, members, [](const ArrayStage& s) { return s.state_bytes; });
    problem.needs.checkpoint =
        bytes(stages, members, [](const ArrayStage& s) { return s.checkpoint_bytes; });
    problem.needs.working =
        bytes(stages, members, [](const ArrayStage& s) { return s.working_bytes; });
    problem.needs.fixed.assign(stages.size(), whole_bytes(reserved_bytes));
    problem.needs.buffers = buffers;
    return problem;
}

}  // namespace arena
