// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search/no_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/statistics.h"
#include "base/text.h"
#include "planner/models/model.h"
#include "planner/operators/operators.h"

namespace arena {

namespace {

/// Of pinned degrees that leave no shard at all, the one at fault.
std::string no_shape_reason(const Model& model, const PlanPin& pin) {
    if (pin.sequence_parallel.value_or(false) &&
        !default_sequence_parallel(model, std::max<std::int64_t>(2, pin.tp)))
        return fmt::format(
            "sp shares out the tokens of a sample over tp ranks, which tp{} does not with {}",
            std::max<std::int64_t>(1, pin.tp), model.name);
    if (pin.cp > 1 && !cp_fits(model, pin.cp))
        return fmt::format("cp{} does not split the {} tokens of {} into {} equal pieces", pin.cp,
                           model.seq_length, model.name, 2 * pin.cp);
    if (pin.ep > 1 && model.experts == 0)
        return fmt::format("ep{} shares out experts, and {} has none", pin.ep, model.name);
    if (pin.ep > 1 && !ep_fits(model, pin.ep))
        return fmt::format("ep{} does not divide the {} experts of {}", pin.ep, model.experts,
                           model.name);
    if (pin.etp > 1)
        return fmt::format(
            "etp{} splits experts that ep shares out, over ranks of a tp that it "
            "divides",
            pin.etp);
    return "no degrees go with " + to_string(pin);
}

/// Why no replicas, however wide, share out the batch.
std::string no_split_reason(const PlanQuery& query, const GpuPool& pool, const NodeShape& nodes,
                            std::int64_t stages) {
    if (query.can.is_data_parallel())
        return fmt::format(
            "batch: {} samples cannot be shared out evenly to {} replicas, and the launcher has no "
            "other use of {} GPUs",
            query.global_batch, nodes.gpus(), nodes.gpus());
    const bool has_heads = is_transformer(query.model.family);
    const std::string reason =
        fmt::format("batch: {} samples cannot be split evenly over the {} GPUs of a stage",
                    query.global_batch, nodes.gpus() / stages);
    if (tp_degrees(query, pool).size() == 1 && !has_heads) return reason;
    const std::string widths = has_heads ? fmt::format("{} heads", query.model.heads)
                                         : fmt::format("{} channels", query.model.base_channels);
    return fmt::format("{} with any tensor-parallel degree that fits {} and a node of {} GPUs",
                       reason, widths, nodes.gpus_per_node);
}

}  // namespace

std::string why_no_plan(const PlanQuery& query, const GpuPool& pool, const NoPlan& none) {
    const NodeShape& nodes = none.nodes;
    const std::int64_t layers = query.model.layers, stages = none.stages;
    if (none.has_candidates) {
        const double limit = real(pool.hardware.memory_bytes);
        if (none.least_bytes <= limit)
            return fmt::format(
                "memory: {} layers fit {} stages, but not in shares that the launcher "
                "can be told",
                layers, stages);
        const std::string short_by = human_bytes(std::max(0.0, none.least_bytes - limit));
        const bool may_recompute = query.pin.recompute.value_or(Recompute::full) == Recompute::full;
        return fmt::format(
            "memory: the smallest plan needs {} per GPU, {} more than the {} of {}{}",
            human_bytes(none.least_bytes), short_by, human_bytes(limit), pool.hardware.name,
            may_recompute ? ""
                          : fmt::format("; the plan fixes recompute {}, full takes less",
                                        to_string(*query.pin.recompute)));
    }
    if (none.untold)
        return fmt::format("launcher: it cannot be told {}",
                           inexpressible(query.can, *none.untold));
    if (stages > layers)
        return fmt::format("layers: {} stages, but {} has {} layers", stages, query.model.name,
                           layers);
    if (!can_share_layers(query, stages))
        return fmt::format(
            "layers: the launcher wants the same number on every stage, and {} does "
            "not divide the {} of {}",
            stages, layers, query.model.name);
    if (const Schedule schedule = schedule_of(query); schedule != Schedule::one_f_one_b)
        return fmt::format(
            "plan: {} wants 2 stages or more of equally many layers{}, and micro-batches that are "
            "a multiple of the {} stages{}",
            to_string(schedule), is_v_shaped(schedule) ? ", in 2 chunks each" : "", stages,
            schedule == Schedule::dual_pipe_v ? ", twice as many or more" : "");
    if (query.pin.vpp > 1)
        return fmt::format(
            "plan: vpp{} wants at least 2 stages of equally many layers, a multiple "
            "of {}, and micro-batches that are a multiple of the {} stages",
            query.pin.vpp, query.pin.vpp, stages);
    const bool has_heads = is_transformer(query.model.family);
    if (tp_degrees(query, pool).empty())
        return (has_heads ? "heads: " : "plan: ") + tp_obstacle(query.model, query.pin.tp);
    if (!none.has_shapes) return "plan: " + no_shape_reason(query.model, query.pin);
    if (nodes.gpus_per_node % std::max<std::int64_t>(1, query.pin.tp) != 0)
        return fmt::format("tp: groups of tp{} do not fill nodes of {} GPUs", query.pin.tp,
                           nodes.gpus_per_node);
    if (nodes.gpus() % stages != 0)
        return fmt::format("stages: {} GPUs cannot be shared by {} stages", nodes.gpus(), stages);
    if (query.pin.zero_stage.value_or(0) > 0 &&
        nodes.gpus() == stages * std::max<std::int64_t>(1, query.pin.tp))
        return fmt::format(
            "plan: zero{} shares the optimizer out over replicas, and {} GPUs have one",
            *query.pin.zero_stage, nodes.gpus());
    return no_split_reason(query, pool, nodes, stages);
}

}  // namespace arena
