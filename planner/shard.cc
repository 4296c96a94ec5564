// SPDX-License-Identifier: GPL-2.0-or-later
// Operator times of a shard, with the floor that the host sets: a GPU cannot run a layer faster
// than Python and the driver issue its kernels (planner.md section 1; without it small models are
// 18 % off).
#include "planner/shard.h"

#include <algorithm>

namespace arena {

namespace {

// Fitted on PyTorch 1.x, Megatron-DeepSpeed, A100 hosts; calibrate per cluster from one run.
constexpr double host_forward_s = 0.95e-3, host_backward_s = 1.27e-3, host_collective_s = 24e-6;

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

/// Host seconds to issue one layer's kernels and n collectives; contention grows with tp.
double host_floor_s(double kernels_s, std::int64_t tp, double collectives) {
    if (tp <= 1) return kernels_s;
    const double slowed = 1 + 0.19 * real(tp - 1) * real(tp - 1);
    return kernels_s + collectives * host_collective_s * slowed;
}

struct LayerParts {
    double forward_s, backward_s, attention_s, collective_s;
    std::int64_t tp;
    bool emulated;
};

/// Two all-reduces forward and two backward; full recompute repeats the forward ones.
LayerSeconds compose(const LayerParts& parts, Recompute recompute) {
    const double repeated = recompute == Recompute::full        ? parts.forward_s
                            : recompute == Recompute::selective ? parts.attention_s
                                                                : 0;
    const double back_collectives = recompute == Recompute::full ? 4 : 2;
    const double forward = parts.forward_s + 2 * parts.collective_s;
    const double backward = parts.backward_s + repeated + back_collectives * parts.collective_s;
    double forward_total = forward, backward_total = backward;
    if (!parts.emulated) {
        const double again = recompute == Recompute::full ? host_forward_s : 0;
        forward_total = std::max(forward, host_floor_s(host_forward_s, parts.tp, 2));
        backward_total =
            std::max(backward, host_floor_s(host_backward_s + again, parts.tp, back_collectives));
    }
    LayerSeconds seconds;
    seconds.comm_s = (2 + back_collectives) * parts.collective_s;
    seconds.compute_s = forward_total + backward_total - seconds.comm_s;
    seconds.backward_s = backward_total;
    return seconds;
}

}  // namespace

Shard::Shard(const PoolContext& context, const Topology& topology, const ShardShape& wanted)
    : shape(wanted), memory(context.model, context.pool.hardware, context.precision, wanted) {
    const Model& model = context.model;
    const double tokens = real(model.seq_length) * real(shape.micro_batch);
    const double bytes = tokens * real(model.hidden) * element_bytes(context.precision);
    LayerParts parts{};
    const LayerList list = layer_list(model);
    double step_s = 0, stepped = 0, boundary = 0;
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
    }
    const ShardOperators ops = shard_operators(model, context.precision, shape);
    parts.collective_s = all_reduce_s(topology, tp_group(topology, shape.tp), bytes);
    parts.tp = shape.tp;
    parts.emulated = context.pool.hardware.emulated;
    for (Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full})
        layer[static_cast<std::size_t>(recompute)] = compose(parts, recompute);
    embedding_s = sum_seconds(context.pricer, ops.embedding, ends_evidence);
    head_s = sum_seconds(context.pricer, ops.head, ends_evidence);
    embedding_comm_s = head_comm_s = parts.collective_s;
    layer_parameters = layer_shard_parameters(model, shape);
    optimizer_parameter_s = step_s / stepped;
    embedding_parameters = embedding_shard_parameters(model, shape.tp);
    head_parameters = head_shard_parameters(model, shape.tp);
    boundary_bytes = boundary * real(shape.micro_batch) * element_bytes(context.precision) /
                     (shape.sequence_parallel ? real(shape.tp) : 1);
}

const LayerSeconds& layer_seconds(const Shard& shard, Recompute recompute) {
    return shard.layer[static_cast<std::size_t>(recompute)];
}

}  // namespace arena
