// SPDX-License-Identifier: GPL-2.0-or-later
// Operator times of a shard, with the floor that the host sets: a GPU cannot run a layer faster
// than Python and the driver issue its kernels; without it small models were
// 18 % off.
#include "planner/shard.h"

#include <algorithm>
#include <cmath>

#include "planner/model.h"
#include "planner/op_builder.h"

namespace arena {

namespace {

double real(std::int64_t value) { return static_cast<double>(value); }

/// Seconds of the operators, `weight` times.
double sum_seconds(const Pricer& pricer, const std::vector<OpCount>& ops, EvidenceSeconds& evidence,
                   double weight = 1) {
    double sum = 0;
    for (const OpCount& op : ops) {
        const OpTime time = pricer.price(op.shape);
        sum += weight * op.count * time.seconds;
        evidence[static_cast<std::size_t>(time.evidence)] += weight * op.count * time.seconds;
    }
    return sum;
}

/// Host and device work side by side: the p-norm of both, close to the longer one.
double side_by_side_s(double device_s, double host_s, double p) {
    if (host_s <= 0 || device_s <= 0) return device_s + host_s;
    const double longer = std::max(device_s, host_s), shorter = std::min(device_s, host_s);
    return longer * std::pow(1 + std::pow(shorter / longer, p), 1 / p);
}

/// What a framework that pads the vocabulary only where tensor parallelism has to split it loses in
/// the logits' GEMMs when a whole table's rows are no multiple of 8.
double unpadded_head_s(const PoolContext& context, const std::vector<OpCount>& head,
                       const ShardShape& shape) {
    const CostConstants& c = context.constants;
    const bool aligned = shape.tp > 1 || context.model.vocab % 8 == 0;
    if (context.pool.hardware.emulated || c.framework.pads_vocab > 0.5 || aligned) return 0;
    const std::int64_t vocab = shard_vocab(context.model, shape.tp);
    double extra = 0;
    for (const OpCount& op : head) {
        const auto& d = op.shape.dims;
        const bool logits = d[0] == vocab || d[1] == vocab || d[2] == vocab;
        if (op.shape.kind == OpKind::gemm && logits)
            extra +=
                op.count * context.pricer.price(op.shape).seconds * (c.device.gemm_align_8 - 1);
    }
    return extra;
}

/// Tokens to the experts' ranks and back, once each; what the framework hides is left out.
double exchange_with_experts_s(const PoolContext& context, const Topology& topology,
                               const ShardShape& shape) {
    if (shape.ep <= 1) return 0;
    const double bytes = routed_rows(context.model, shape) * real(context.model.hidden) *
                         element_bytes(plain_precision(context.precision));
    const Group group = strided_group(topology, shape.ep, 1);
    return 2 * (1 - context.constants.framework.overlap_expert) *
           all_to_all_s(topology, group, bytes);
}

/// Ring attention: every rank passes its keys and values on cp - 1 times while it computes; what
/// does not hide behind the attention of one micro-batch is left.
double context_ring_s(const PoolContext& context, const Topology& topology, const ShardShape& shape,
                      double attention_s) {
    if (shape.cp <= 1) return 0;
    const Model& model = context.model;
    const double tokens = real(model.seq_length) * real(shape.micro_batch) / real(shape.cp);
    const double heads = std::max(1.0, real(model.kv_heads) / real(shape.tp));
    const double bytes = tokens * heads * real(head_dim(model) + value_head_dim(model)) *
                         element_bytes(plain_precision(context.precision));
    const Group group = strided_group(topology, shape.cp, shape.tp);
    const double step = point_to_point_s(topology, group.nodes() > 1, bytes);
    return std::max(real(shape.cp - 1) * step - attention_s,
                    context.constants.framework.overlap_slowdown * real(shape.cp - 1) * step);
}

struct LayerParts {
    double forward_s, backward_s, attention_s, collective_s;
    double extra_host_s;  ///< of one forward: softmax that is not fused, experts
    double experts_s;     ///< all-to-all to experts and back, exposed part
    double ring_s;        ///< keys and values around the context-parallel group, exposed part
    std::int64_t tp;
    bool emulated;
};

/// Two all-reduces forward and two backward; full recompute repeats the forward ones.
LayerSeconds compose(const LayerParts& parts, Recompute recompute, const FrameworkConstants& c) {
    const bool full = recompute == Recompute::full;
    const double repeated = full                                ? parts.forward_s
                            : recompute == Recompute::selective ? parts.attention_s
                                                                : 0;
    const double back_collectives = full ? 4 : 2, exposed = 1 - c.overlap_tensor;
    const double forward_comm = 2 * exposed * parts.collective_s + parts.experts_s + parts.ring_s;
    const double backward_comm = back_collectives * exposed * parts.collective_s +
                                 (full ? 2 : 1) * parts.experts_s + (full ? 3 : 2) * parts.ring_s;
    const double forward = parts.forward_s + forward_comm;
    const double backward = parts.backward_s + repeated + backward_comm;
    double forward_total = forward, backward_total = backward;
    if (!parts.emulated) {
        const double issue = parts.tp > 1 ? c.host_collective_s : 0;
        const double host = c.host_forward_s + parts.extra_host_s + 2 * issue;
        const double host_back = c.host_backward_s + parts.extra_host_s + 2 * issue;
        forward_total = side_by_side_s(forward, host, c.host_sharpness);
        backward_total = side_by_side_s(backward, host_back + (full ? host : 0), c.host_sharpness);
    }
    LayerSeconds seconds;
    seconds.comm_s = forward_comm + backward_comm;
    seconds.compute_s = forward_total + backward_total - seconds.comm_s;
    seconds.forward_s = forward_total;
    seconds.backward_s = backward_total;
    return seconds;
}

}  // namespace

Shard::Shard(const PoolContext& context, const Topology& topology, const ShardShape& wanted)
    : shape(wanted),
      memory(context.model, context.pool.hardware, context.constants.framework, context.precision,
             wanted) {
    const Model& model = context.model;
    const double tokens = real(model.seq_length) * real(shape.micro_batch) / real(shape.cp);
    const double width = element_bytes(plain_precision(context.precision));
    const double bytes = tokens * real(model.hidden) * width;
    LayerParts parts{};
    const LayerList list = layer_list(model);
    double step_s = 0, stepped = 0, boundary = 0, expert_share = 0;
    for (std::size_t k = 0; k < list.kinds.size(); ++k) {  // the mean over all layers
        const LayerKind& kind = list.kinds[k];
        const double share = real(list.count_of(k)) / real(model.layers);
        const ShardOperators ops = shard_operators(model, context.precision, shape, kind);
        EvidenceSeconds unused{};
        parts.forward_s += sum_seconds(context.pricer, ops.layer_forward, layer_evidence, share);
        parts.backward_s += sum_seconds(context.pricer, ops.layer_backward, layer_evidence, share);
        parts.attention_s += sum_seconds(context.pricer, ops.attention, unused, share);
        step_s += share * context.pricer.price(ops.optimizer).seconds;
        stepped += share * real(ops.optimizer.dims[0]);
        boundary += share * layer_output_elements(model, kind);
        expert_share += kind.body == LayerKind::Body::moe ? share : 0;
        expert_parameters += share * shard_parameters(model, kind, shape).expert;
    }
    const ShardOperators ops = shard_operators(model, context.precision, shape);
    parts.collective_s = all_reduce_s(topology, tp_group(topology, shape.tp), bytes) +
                         context.constants.framework.collective_skew_s * std::log2(real(shape.tp));
    parts.tp = shape.tp;
    parts.emulated = context.pool.hardware.emulated;
    const FrameworkConstants& framework = context.constants.framework;
    const double attention_batch =
        ops.attention.empty() ? 0 : real(ops.attention.front().shape.dims[0]);
    if (framework.fused_attention < 0.5 &&
        std::fmod(attention_batch, framework.softmax_multiple) != 0)
        parts.extra_host_s += framework.softmax_fallback_s;
    parts.extra_host_s += expert_share * framework.host_expert_s;
    parts.experts_s = expert_share * exchange_with_experts_s(context, topology, shape);
    parts.ring_s = context_ring_s(context, topology, shape, parts.attention_s);
    for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
        layer[static_cast<std::size_t>(recompute)] =
            compose(parts, recompute, context.constants.framework);
    embedding_s = sum_seconds(context.pricer, ops.embedding, ends_evidence);
    head_s = head_tokens(context) *
             (sum_seconds(context.pricer, ops.head, ends_evidence) +
              unpadded_head_s(context, ops.head, shape));
    embedding_comm_s = head_comm_s = parts.collective_s;
    layer_parameters = layer_shard_parameters(model, shape);
    optimizer_parameter_s = step_s / stepped;
    embedding_parameters = embedding_shard_parameters(model, shape.tp);
    head_parameters = head_shard_parameters(model, shape.tp);
    const bool parts_of_boundary =
        shape.sequence_parallel || (!parts.emulated && framework.partitions_boundary > 0.5);
    boundary_bytes = boundary * real(shape.micro_batch) * width /
                     (real(shape.cp) * (parts_of_boundary ? real(shape.tp) : 1));
}

PoolContext make_context(const Model& model, const GpuPool& pool, std::int64_t global_batch,
                         Precision precision) {
    const CostConstants constants =
        pool.constants ? *pool.constants
                       : builtin_calibration().constants(pool.hardware.name, pool.framework);
    return {model,     pool,      global_batch,
            precision, constants, Pricer(pool.hardware, constants, pool.profile)};
}

double head_tokens(const PoolContext& context) {
    return context.model.family == Family::bert ? context.constants.framework.head_tokens : 1;
}

double model_tflops_per_gpu(const PoolContext& context, double samples_per_s, double gpus) {
    return 3 * forward_flops(context.model, head_tokens(context)) * samples_per_s / gpus / 1e12;
}

const LayerSeconds& layer_seconds(const Shard& shard, Recompute recompute) {
    return shard.layer[static_cast<std::size_t>(recompute)];
}

}  // namespace arena
