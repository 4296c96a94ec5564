// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/search/mixed.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/statistics.h"
#include "planner/models/model.h"
#include "planner/plans/iteration.h"

namespace arena {

namespace {

/// The parts of an estimate that one stage decides.
void add_stage_times(Estimate& e, const Plan& plan, const StagePart& part) {
    const double m = real(plan.num_micro_batches);
    e.tp_comm_s = m * part.comm_s;
    e.pp_comm_s = m * part.boundary_s;
    e.compute_s = m * part.pass_s() - e.tp_comm_s - e.pp_comm_s;
}

}  // namespace

double hand_over_s(const PoolContext& context, const Topology& topology, std::int64_t end_gpu,
                   double bytes) {
    const bool crosses = end_gpu % topology.gpus_per_node == 0;
    return 2 * (1 - context.constants.framework.overlap_boundary) *
           point_to_point_s(topology, crosses, bytes);
}

double mixed_boundary_s(const FrameworkConstants& framework, double sent_s, double received_s,
                        double sent_before_s) {
    return sent_s + received_s - (1 - framework.blocking_boundary) * sent_before_s;
}

bool is_aligned(std::int64_t first_gpu, std::int64_t gpus, std::int64_t gpus_per_node) {
    if (gpus < gpus_per_node) return gpus_per_node % gpus == 0 && first_gpu % gpus == 0;
    return gpus % gpus_per_node == 0 && first_gpu % gpus_per_node == 0;
}

StagePart lone_part(const PoolContext& context, const Topology& topology, const Shard& shard,
                    const PlanChoice& choice, std::int64_t index, LayerRange layers) {
    StagePart part = Iteration(context, topology, shard, choice).part(index, layers);
    part.forward_s -= part.boundary_s / 2;
    part.backward_s -= part.boundary_s / 2;
    part.boundary_s = 0;
    return part;
}

ShardBook::ShardBook(const PoolContext& context, bool sequence_parallel)
    : context_(context), sequence_parallel_(sequence_parallel) {}

const Shard& ShardBook::get(std::int64_t tp, std::int64_t micro_batch) {
    std::unique_ptr<Shard>& slot = shards_[{tp, micro_batch}];
    if (!slot) {
        const GpuPool& pool = context_.pool;
        const Topology node = topology_of(pool, {pool.gpu_type, 1, tp, 1});
        ShardShape shape;
        shape.tp = tp;
        shape.micro_batch = micro_batch;
        shape.sequence_parallel =
            sequence_parallel_ && default_sequence_parallel(context_.model, tp);
        slot = std::make_unique<Shard>(context_, node, shape);
    }
    return *slot;
}

bool is_mixed(const Plan& plan) {
    const auto differ = [](const std::vector<std::int64_t>& list) {
        return std::any_of(list.begin(), list.end(),
                           [&](std::int64_t v) { return v != list.front(); });
    };
    return differ(plan.stage_dp) || differ(plan.stage_tp);
}

Status check_mixed(const Plan& plan, std::int64_t gpus_per_node) {
    if (plan.vpp != 1 || plan.cp != 1 || plan.ep != 1 || plan.schedule != Schedule::one_f_one_b)
        return usage_error("stages that differ in dp or tp take vpp, cp and ep of 1");
    const std::int64_t samples = plan.micro_batch * plan.dp();
    std::int64_t first = 0;
    for (std::size_t i = 0; i < plan.stage_dp.size(); ++i) {
        const std::int64_t gpus = plan.stage_dp[i] * plan.stage_tp[i];
        if (samples % plan.stage_dp[i] != 0)
            return usage_error(
                fmt::format("stage {} has dp{}, which does not divide the {} samples "
                            "of a micro-batch",
                            i, plan.stage_dp[i], samples));
        if (plan.stage_tp[i] > gpus_per_node || !is_aligned(first, gpus, gpus_per_node))
            return usage_error(
                fmt::format("stage {} has {} GPUs from number {} on, which are neither "
                            "whole nodes of {} nor an aligned part of one",
                            i, gpus, first, gpus_per_node));
        first += gpus;
    }
    return Done{};
}

Estimate price_mixed(const PoolContext& context, const Topology& topology, ShardBook& shards,
                     const Plan& plan) {
    const std::size_t stages = plan.stage_layers.size();
    const std::int64_t samples = plan.micro_batch * plan.dp(), m = plan.num_micro_batches;
    Estimate e;
    PipelineLength pipeline;
    double slowest_s = -1, exchange = 0, step = 0, host = 0, fixed = 0, sent_s = 0;
    std::int64_t end_gpu = 0, end_layer = 0;
    const Shard* before = nullptr;
    for (std::size_t i = 0; i < stages; ++i) {
        const Shard& shard = shards.get(plan.stage_tp[i], samples / plan.stage_dp[i]);
        const PlanChoice choice{plan.pp(), plan.stage_dp[i], m, plan.recompute, plan.zero_stage};
        const auto index = static_cast<std::int64_t>(i);
        const LayerRange layers{end_layer, end_layer + plan.stage_layers[i]};
        end_layer = layers.end;
        StagePart part = lone_part(context, topology, shard, choice, index, layers);
        if (i == 0) fixed = Iteration(context, topology, shard, choice).fixed_s();
        const double received_s = i == 0
                                      ? 0
                                      : hand_over_s(context, topology, end_gpu,
                                                    std::max(before->boundary_bytes(layers.begin),
                                                             shard.boundary_bytes(layers.begin)));
        end_gpu += plan.stage_dp[i] * plan.stage_tp[i];
        const double sent_before_s = sent_s;  // 0 before the first
        sent_s = i + 1 < stages
                     ? hand_over_s(context, topology, end_gpu, shard.boundary_bytes(layers.end))
                     : 0;
        part.boundary_s =
            mixed_boundary_s(context.constants.framework, sent_s, received_s, sent_before_s);
        part.forward_s += part.boundary_s / 2;
        part.backward_s += part.boundary_s / 2;
        before = &shard;
        pipeline.add(part.forward_s, part.backward_s, std::min(m, plan.pp() - index), m);
        exchange = std::max(exchange, part.exchange_s);
        step = std::max(step, part.step_s);
        host = std::max(host, part.host_s);
        e.memory_bytes_per_gpu = std::max(e.memory_bytes_per_gpu, part.bytes);
        if (part.pass_s() <= slowest_s) continue;
        slowest_s = part.pass_s();
        add_stage_times(e, plan, part);
        const Estimate uniform =  // what its evidence is worth
            price_stages(context, topology, shard, choice, plan.stage_layers);
        e.source = uniform.source;
        e.error_bound = uniform.error_bound;
    }
    const double own = context.pool.hardware.emulated ? 0 : context.constants.framework.iteration_s;
    e.bubble_s = std::max(0.0, pipeline.closed_s - real(m) * slowest_s);
    e.dp_comm_s = exchange + fixed - own;
    e.optimizer_s = step + host + own;
    e.iteration_s = pipeline.closed_s + exchange + step + host + fixed;
    e.samples_per_s = real(context.global_batch) / e.iteration_s;
    e.tflops_per_gpu = model_tflops_per_gpu(context, e.samples_per_s, real(plan.gpus()));
    return e;
}

}  // namespace arena
