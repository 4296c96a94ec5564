// SPDX-License-Identifier: GPL-2.0-or-later
// Operator times of a shard, with the floor that the host sets: a GPU cannot run a layer faster
// than Python and the driver issue its kernels; without it small models were
// 18 % off.
#include "planner/plans/shard.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/statistics.h"
#include "planner/models/model.h"
#include "planner/operators/op_builder.h"
#include "planner/operators/whole_layer.h"

namespace arena {

namespace {

/// What of it makes gradients of weights; half, where only FLOPs and bytes are known.
double weights_share(const OpShape& shape) {
    if (shape.kind == OpKind::custom) return 0.5;
    const auto* conv = std::get_if<ConvVariant>(&shape.variant);
    const bool is_weights = has_variant(shape, Gradient::weights) ||
                            (conv != nullptr && conv->gradient == Gradient::weights);
    return is_weights ? 1 : 0;
}

/// Seconds of the operators, which count as evidence; weights_s: what of them makes gradients of
/// weights.
double sum_seconds(const Pricer& pricer, const std::vector<OpCount>& ops, EvidenceSeconds& evidence,
                   double* weights_s = nullptr) {
    double sum = 0;
    for (const OpCount& op : ops) {
        const OpTime time = pricer.price(op.shape);
        const double seconds = op.count * time.seconds;
        sum += seconds;
        if (weights_s != nullptr) *weights_s += weights_share(op.shape) * seconds;
        evidence[static_cast<std::size_t>(time.evidence)] += seconds;
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
    const double rows = routed_rows(context.model, shape) * real(context.model.hidden) *
                        element_bytes(plain_precision(context.precision));
    const Group group = strided_group(topology, shape.ep, shape.etp);
    const double among_experts_s = 2 * (1 - context.constants.framework.overlap_expert) *
                                   all_to_all_s(topology, group, rows / real(shape.etp));
    if (shape.etp == 1) return among_experts_s;
    // those that split an expert gather their rows, and sum and scatter what comes of them
    const Group split = tp_group(topology, shape.etp);
    return among_experts_s + all_gather_s(topology, split, rows) +
           reduce_scatter_s(topology, split, rows);
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

/// Of tensor parallelism in a forward pass, which has as many as a backward.
struct Collectives {
    double count = 0, seconds = 0;
    double repeated_count = 0, repeated_s = 0;  ///< that full recompute does again
};

struct LayerParts {
    double forward_s, backward_s, attention_s;
    double again_s;    ///< forward of what modules recompute whatever else is recomputed
    double weights_s;  ///< of backward, the products that make gradients of weights
    Collectives collectives;
    double overlap;  ///< share of tensor-parallel collectives that may hide
    double issue_forward_s, issue_backward_s;  ///< plain launches of our own take this, measured
    double extra_host_s;   ///< of one forward: softmax that is not fused, experts
    double experts_s;      ///< all-to-all to experts and back, exposed part
    double experts_again;  ///< passes of that in a backward that repeats no whole layer
    double ring_s;         ///< keys and values around the context-parallel group, exposed part
    std::int64_t tp;
    bool emulated;
};

/// One pass of a kind of layer; `share` of its seconds are added to `evidence`.
struct LayerPass {
    const PoolContext& context;
    const ShardShape& shape;
    const LayerKind& kind;
    double share;
    EvidenceSeconds& evidence;

    double seconds(Pass pass, const std::vector<OpCount>& ops, double& issue_s,
                   double* weights_s = nullptr) const {
        EvidenceSeconds own{};
        const double sum_s = sum_seconds(context.pricer, ops, own, weights_s);
        std::optional<OpShape> layer;
        if (context.pricer.has_layers())
            layer = whole_layer(context.model, context.precision, shape, kind, pass);
        const PassTime time = pass_time(context.pricer, layer, sum_s);
        const double rest = sum_s > 0 ? share * (time.seconds - time.exact_s) / sum_s : 0;
        for (std::size_t i = 0; i < own.size(); ++i) evidence[i] += rest * own[i];
        evidence[static_cast<std::size_t>(Evidence::exact)] += share * time.exact_s;
        issue_s = time.issue_s;
        if (weights_s != nullptr && sum_s > 0) *weights_s *= time.seconds / sum_s;
        return time.seconds;
    }
};

LayerSeconds compose(const LayerParts& parts, Recompute recompute, const FrameworkConstants& c) {
    const bool full = recompute == Recompute::full;
    const double repeated = full ? parts.forward_s
                            : recompute == Recompute::selective
                                ? c.selective_attention * parts.attention_s +
                                      c.selective_others * (parts.forward_s - parts.attention_s) +
                                      parts.again_s
                                : parts.again_s;
    const Collectives& tensor = parts.collectives;
    // collectives hide behind the matrix products beside them: no longer than these take, and only
    // where ranks write into each other's memory (Transformer Engine's userbuffers ask for NVLink)
    const double hidden =
        tensor.seconds > 0 ? std::min(parts.overlap, parts.forward_s / tensor.seconds) : 0;
    const double exposed = 1 - hidden;
    const double share = full ? 1 : recompute == Recompute::selective ? c.selective_others : 0;
    const double again_s = share * tensor.repeated_s;
    const double forward_comm = exposed * tensor.seconds + parts.experts_s + parts.ring_s;
    const double backward_comm = exposed * (tensor.seconds + again_s) +
                                 (full ? 2 : parts.experts_again) * parts.experts_s +
                                 (full ? 3 : 2) * parts.ring_s;
    const double forward = parts.forward_s + forward_comm;
    const double backward = parts.backward_s + repeated + backward_comm;
    double forward_total = forward, backward_total = backward;
    if (!parts.emulated) {
        const double issue = parts.tp > 1 ? c.host_collective_s : 0;
        const double host = c.host_forward_s + parts.extra_host_s;
        const double host_back = c.host_backward_s + parts.extra_host_s + tensor.count * issue;
        const double again = share * (host + tensor.repeated_count * issue);
        forward_total = side_by_side_s(forward, host + tensor.count * issue, c.host_sharpness);
        backward_total = side_by_side_s(backward, host_back + again, c.host_sharpness);
        // no framework launches faster than the profiler does
        forward_total = std::max(forward_total, parts.issue_forward_s);
        backward_total =
            std::max(backward_total, parts.issue_backward_s + (full ? parts.issue_forward_s : 0));
    }
    LayerSeconds seconds;
    seconds.comm_s = forward_comm + backward_comm;
    seconds.compute_s = forward_total + backward_total - seconds.comm_s;
    seconds.forward_s = forward_total;
    seconds.backward_s = backward_total;
    seconds.weights_s = backward > 0 ? parts.weights_s * backward_total / backward : 0;
    return seconds;
}

/// Of one kind of layer: its operators, and what its communication and the host add.
class KindPricer {
  public:
    KindPricer(const PoolContext& context, const Topology& topology, const ShardShape& shape)
        : context_(context),
          framework_(context.constants.framework),
          topology_(topology),
          shape_(shape) {
        const double tokens =
            real(context.model.seq_length) * real(shape.micro_batch) / real(shape.cp);
        const double bytes = tokens * real(context.model.hidden) * element_size();
        group_ = tp_group(topology, shape.tp);
        skew_s_ = framework_.collective_skew_s * std::log2(real(shape.tp));
        collective_s_ = all_reduce_s(topology, group_, bytes) + skew_s_;
        experts_s_ = exchange_with_experts_s(context, topology, shape);
    }

    /// Of what comes before the layers: an all-reduce. A stem's output is gathered by the first
    /// block.
    [[nodiscard]] double embedding_s() const { return is_resnet() ? 0 : collective_s_; }
    /// Of what comes behind them: an all-reduce; of a classifier's logits.
    [[nodiscard]] double head_s() const {
        if (!is_resnet()) return collective_s_;
        const double logits = real(shape_.micro_batch * context_.model.classes) * element_size();
        return all_reduce_s(topology_, group_, logits) + skew_s_;
    }

    /// By Recompute; `share` of its seconds by evidence are added to `evidence`.
    [[nodiscard]] std::array<LayerSeconds, 3> price(const LayerKind& kind,
                                                    const ShardOperators& ops, double share,
                                                    EvidenceSeconds& evidence) const {
        EvidenceSeconds unused{};
        LayerParts parts{};
        const LayerPass pass{context_, shape_, kind, share, evidence};
        parts.forward_s = pass.seconds(Pass::forward, ops.layer_forward, parts.issue_forward_s);
        parts.backward_s = pass.seconds(Pass::backward, ops.layer_backward, parts.issue_backward_s,
                                        &parts.weights_s);
        parts.attention_s = sum_seconds(context_.pricer, ops.attention, unused);
        if (const double wait = ring_wait(kind); wait > 0) {
            parts.forward_s += wait * attention_s(ops.layer_forward);
            parts.backward_s += wait * attention_s(ops.layer_backward);
            parts.attention_s *= 1 + wait;
        }
        parts.again_s = again_s(kind, ops);
        parts.collectives = collectives(kind);
        parts.overlap = topology_.intra.name.starts_with("pcie") ? 0 : framework_.overlap_tensor;
        parts.extra_host_s = fallback_s(ops);
        parts.ring_s = context_ring_s(context_, topology_, shape_, parts.attention_s);
        if (kind.body == LayerKind::Body::moe) {
            parts.extra_host_s += framework_.host_expert_s + framework_.host_group_s *
                                                                 real(context_.model.experts) /
                                                                 real(shape_.ep);
            parts.experts_s = experts_s_;
            parts.experts_again = 1 + framework_.recompute_mlp;
        }
        parts.tp = shape_.tp;
        parts.emulated = context_.pool.hardware.emulated;
        return {compose(parts, Recompute::none, framework_),
                compose(parts, Recompute::selective, framework_),
                compose(parts, Recompute::full, framework_)};
    }

  private:
    [[nodiscard]] double element_size() const {
        return element_bytes(plain_precision(context_.precision));
    }

    /// An all-gather, or a reduce-scatter, of so many elements.
    [[nodiscard]] double gather_s(double elements) const {
        return all_gather_s(topology_, group_, elements * element_size()) + skew_s_;
    }

    [[nodiscard]] bool is_resnet() const { return context_.model.family == Family::wide_resnet; }

    /// A transformer's two all-reduces, which full recompute repeats. See ChannelElements for a
    /// bottleneck block, whose input full recompute keeps whole, so that it is not gathered again.
    [[nodiscard]] Collectives collectives(const LayerKind& kind) const {
        if (!is_resnet()) return {2, 2 * collective_s_, 2, 2 * collective_s_};
        const auto [in, first, out] = bottleneck_channel_elements(context_.model, kind, shape_);
        const double repeated_s = gather_s(first) + gather_s(out);
        return {3, gather_s(in) + repeated_s, 2, repeated_s};
    }

    [[nodiscard]] double attention_s(const std::vector<OpCount>& ops) const {
        double sum = 0;
        for (const OpCount& op : ops)
            if (op.shape.kind == OpKind::attention)
                sum += op.count * context_.pricer.price(op.shape).seconds;
        return sum;
    }

    /// What modules recompute: norms and activation functions, the MLP or the experts, or both.
    [[nodiscard]] double again_s(const LayerKind& kind, const ShardOperators& ops) const {
        EvidenceSeconds unused{};
        const double mlp = framework_.recompute_mlp, pointwise = framework_.recompute_pointwise;
        double seconds = pointwise > 0 ? pointwise * pointwise_s(ops.layer_forward) : 0;
        if (mlp > 0) {
            const auto forward = mlp_operators(context_.model, context_.precision, shape_, kind);
            seconds += mlp * (sum_seconds(context_.pricer, forward, unused) -
                              pointwise * pointwise_s(forward));
        }
        return seconds;
    }

    [[nodiscard]] double pointwise_s(const std::vector<OpCount>& ops) const {
        double sum = 0;
        for (const OpCount& op : ops)
            if (op.shape.kind == OpKind::norm || op.shape.kind == OpKind::elementwise)
                sum += op.count * context_.pricer.price(op.shape).seconds;
        return sum;
    }

    /// What more than the mean the rank with the end of the sequence computes of causal attention,
    /// where each of cp ranks has one piece of it: 1 / cp of (1 + ... + cp) / cp for the mean.
    [[nodiscard]] double ring_wait(const LayerKind& kind) const {
        const bool waits = shape_.cp > 1 && kind.window == 0 && !context_.pool.hardware.emulated &&
                           context_.model.family != Family::bert;
        return waits ? framework_.ring_imbalance * (1 - 1 / real(shape_.cp)) : 0;
    }

    /// Host time of a softmax that the fused kernel does not take.
    [[nodiscard]] double fallback_s(const ShardOperators& ops) const {
        const double batch = ops.attention.empty() ? 0 : real(ops.attention.front().shape.dims[0]);
        const bool is_fused =
            framework_.fused_attention >= 0.5 || std::fmod(batch, framework_.softmax_multiple) == 0;
        return is_fused ? 0 : framework_.softmax_fallback_s;
    }

    const PoolContext& context_;
    const FrameworkConstants& framework_;
    const Topology& topology_;
    const ShardShape& shape_;
    Group group_{};
    double skew_s_ = 0, collective_s_ = 0, experts_s_ = 0;
};

LayerSums<5>::Row row_of(const LayerSeconds& s) {
    return {s.compute_s, s.comm_s, s.forward_s, s.backward_s, s.weights_s};
}

/// {number, channels of them all} of one pass.
std::array<double, 2> batch_norms_of(const std::vector<OpCount>& ops) {
    std::array<double, 2> sums{};
    for (const OpCount& op : ops) {
        if (!has_variant(op.shape, NormKind::batch)) continue;
        sums[0] += op.count;
        sums[1] += op.count * real(op.shape.dims[1]);
    }
    return sums;
}

}  // namespace

Shard::Shard(const PoolContext& context, const Topology& topology, const ShardShape& wanted)
    : shape(wanted), memory(context, wanted) {
    const Model& model = context.model;
    const KindPricer pricer(context, topology, shape);
    const LayerList& list = context.layers->list();
    trained_share = arena::trained_share(model, list, shape);
    std::vector<Kind> kinds;
    double step_s = 0, stepped = 0;
    for (std::size_t k = 0; k < list.kinds.size(); ++k) {
        const double share = real(list.count_of(k)) / real(model.layers);
        const ShardOperators ops = shard_operators(model, context.precision, shape, list.kinds[k]);
        const LayerParameters held = shard_parameters(model, list.kinds[k], shape);
        kinds.push_back({pricer.price(list.kinds[k], ops, share, layer_evidence),
                         {held.total(), held.expert},
                         batch_norms_of(ops.layer_forward)});
        step_s += share * context.pricer.price(ops.optimizer).seconds;
        stepped += share * real(ops.optimizer.dims[0]);
        if (k == 0) set_ends(context, ops);
    }
    embedding_comm_s = pricer.embedding_s(), head_comm_s = pricer.head_s();
    optimizer_parameter_s = step_s / stepped;
    set_layers(kinds);
    set_boundaries(context);
}

/// Rows of three times, parameters, norms and memory; of the greatest ones a logarithm of levels.
std::size_t Shard::bytes() const {
    const LayerIndex& index = *memory.index();
    const auto rows = [&] {
        if (index.form() == LayerIndex::Form::tabled) return static_cast<double>(index.layers());
        if (index.form() == LayerIndex::Form::by_run)
            return 2 * real(std::ssize(index.list().runs));
        return 0.0;
    }();
    const double numbers =
        rows * (30 + 4 * std::log2(rows + 1)) + 32 * real(std::ssize(index.list().kinds));
    const double counts = index.form() == LayerIndex::Form::counted
                              ? real(index.layers() * std::ssize(index.list().kinds)) / 4
                              : 0;
    return sizeof *this + static_cast<std::size_t>(8 * (numbers + counts));
}

/// Embedding and head, which the operators of any layer name.
void Shard::set_ends(const PoolContext& context, const ShardOperators& ops) {
    embedding_s = sum_seconds(context.pricer, ops.embedding, ends_evidence);
    head_s = context.head_tokens * (sum_seconds(context.pricer, ops.head, ends_evidence) +
                                    unpadded_head_s(context, ops.head, shape));
    embedding_parameters = embedding_shard_parameters(context.model, shape.tp);
    head_parameters = head_shard_parameters(context.model, shape);
}

void Shard::set_layers(std::span<const Kind> kinds) {
    const std::shared_ptr<const LayerIndex>& index = memory.index();
    for (std::size_t r = 0; r < times_.size(); ++r) {
        std::vector<LayerSums<5>::Row> rows;
        rows.reserve(kinds.size());
        for (const Kind& kind : kinds) {
            rows.push_back(row_of(kind.seconds[r]));
            const double total_s = kind.seconds[r].total();
            slowest_s_[r] = std::max(slowest_s_[r], total_s);
            least_s_[r] = rows.size() == 1 ? total_s : std::min(least_s_[r], total_s);
        }
        times_[r].set(index, std::move(rows));
    }
    std::vector<LayerSums<2>::Row> parameters, norms;
    for (const Kind& kind : kinds) {
        parameters.push_back(kind.parameters);
        norms.push_back(kind.norms);
    }
    parameters_.set(index, std::move(parameters));
    norms_.set(index, std::move(norms));
    layer_parameters = kinds.size() == 1
                           ? kinds[0].parameters[0]
                           : parameters_.over({0, index->layers()})[0] / real(index->layers());
}

/// A rank sends its part of what leaves a layer where the framework splits it; of a bottleneck
/// block, its channels, which the next block gathers.
void Shard::set_boundaries(const PoolContext& context) {
    const FrameworkConstants& framework = context.constants.framework;
    const bool in_parts = shape.sequence_parallel || context.model.family == Family::wide_resnet ||
                          (!context.pool.hardware.emulated && framework.partitions_boundary > 0.5);
    const double width = element_bytes(plain_precision(context.precision));
    const double ranks = real(shape.cp) * (in_parts ? real(shape.tp) : 1);
    const auto bytes = [&](double elements) {
        return elements * real(shape.micro_batch) * width / ranks;
    };
    const LayerList& list = context.layers->list();
    std::vector<double> outputs;
    for (const LayerKind& kind : list.kinds)
        outputs.push_back(bytes(layer_output_elements(context.model, kind)));
    boundary_bytes_.set(memory.index(), bytes(first_input_elements(context.model, list)),
                        std::move(outputs));
}

}  // namespace arena
