// SPDX-License-Identifier: GPL-2.0-or-later
// Operators and sizes of a shard for every kind of layer; the kinds themselves are written down in
// transformer_ops.cc and resnet_ops.cc.
#include "planner/operators/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "planner/models/model.h"
#include "planner/operators/op_builder.h"

namespace arena {

namespace {

using Body = LayerKind::Body;

bool is_transformer_layer(const LayerKind& kind) {
    return kind.body == Body::dense || kind.body == Body::moe;
}

/// Of FLOPs in millions or bytes in thousands: at least one.
std::int64_t whole(double value) {
    return static_cast<std::int64_t>(std::clamp(std::ceil(value), 1.0, 0x1p49));
}

/// One of a custom layer's operators, for a micro-batch. Bytes become a kernel that reads one
/// element and writes one, as activations and norms do.
void custom_operator(const LayerOperator& op, Precision precision, std::int64_t samples,
                     OpBuilder& ops) {
    const auto& [a, b, c, d, e] = op.sizes;
    const double times = real(op.count);
    const auto all = [&](std::int64_t size) { return whole(real(samples) * real(size)); };
    const Precision plain = plain_precision(precision);
    switch (op.kind) {
        case LayerOperator::Kind::gemm:
            return ops.gemm(precision, all(a), b, c, 1, times);
        case LayerOperator::Kind::bmm:
            return ops.gemm(plain, a, b, c, all(d), times);
        case LayerOperator::Kind::attention:
        case LayerOperator::Kind::causal_attention:
            return ops.pair(
                OpKind::attention, plain, {all(a), all(b), c, d},
                AttentionVariant{.is_causal = op.kind == LayerOperator::Kind::causal_attention},
                times);
        case LayerOperator::Kind::conv:
            return ops.convolution(plain, {samples, a, b, c}, d, e, true, times);
        case LayerOperator::Kind::memory:
            return ops.pair(OpKind::elementwise, plain,
                            {samples, whole(real(a) / (2 * element_bytes(plain)))},
                            ElementwiseKind::gelu, times);
        case LayerOperator::Kind::loss:
            return ops.pair(OpKind::cross_entropy, plain, {all(a), b}, {}, times);
    }
}

/// A list entry of a custom model: its operators, and FLOPs that they do not cover. Where none are
/// given, one operator: forward reads the parameters, writes what backward needs and reads it once.
void custom_layer(const Model& model, Precision precision, const ShardShape& shape,
                  const LayerKind& kind, OpBuilder& ops) {
    const CustomLayer& layer = model.custom_layers[kind.index];
    const double samples = real(shape.micro_batch);
    const bool is_listed = !layer.operators.empty();
    double flops = layer.forward_flops;
    for (const LayerOperator& op : layer.operators) {
        custom_operator(op, precision, shape.micro_batch, ops);
        flops -= operator_flops(op);
    }
    constexpr double rounding = 0.001;
    if (is_listed && flops <= rounding * layer.forward_flops) return;
    const double bytes =
        is_listed ? 0 : layer.parameter_bytes + 2 * samples * layer.activation_bytes;
    ops.pair(OpKind::custom, precision, {whole(samples * flops / 1e6), whole(bytes / 1e3)}, {});
}

void layer(const Model& model, Precision precision, const ShardShape& shape, const LayerKind& kind,
           OpBuilder& ops) {
    if (kind.body == Body::custom) return custom_layer(model, precision, shape, kind, ops);
    if (kind.body == Body::bottleneck) return bottleneck_layer(model, precision, shape, kind, ops);
    transformer_layer(model, precision, shape, kind, ops);
}

LayerKind last_kind(const Model& model) {
    const LayerList list = layer_list(model);
    return list.kinds[list.runs.back().kind];
}

/// What each token more that is predicted costs: a projection of the hidden state beside the next
/// token's embedding, a layer like the last one, the head.
void mtp_layers(const Model& model, Precision precision, const ShardShape& shape,
                std::vector<OpCount>& head) {
    const LayerKind kind = last_kind(model);
    const std::int64_t h = model.hidden;
    const std::int64_t tokens =
        std::max<std::int64_t>(1, model.seq_length * shape.micro_batch / shape.cp);
    std::vector<OpCount> once;
    OpBuilder builder(once, once);
    builder.pair(OpKind::norm, plain_precision(precision), {tokens, h},
                 model.rms_norm ? NormKind::rms : NormKind::layer, 2);
    builder.gemm(precision, tokens, std::max<std::int64_t>(1, h / shape.tp), 2 * h);
    transformer_layer(model, precision, shape, kind, builder);
    transformer_head(model, precision, shape, builder);
    for (OpCount& op : once) {
        op.count *= real(model.mtp_layers);
        head.push_back(std::move(op));
    }
}

void ends(const Model& model, Precision precision, const ShardShape& shape, ShardOperators& ops) {
    if (model.family == Family::custom) return;
    OpBuilder first(ops.embedding, ops.embedding), last(ops.head, ops.head);
    if (model.family == Family::wide_resnet) {
        resnet_stem(model, precision, shape, first);
        return resnet_head(model, precision, shape, last);
    }
    transformer_embedding(model, precision, shape, first);
    transformer_head(model, precision, shape, last);
    if (model.mtp_layers > 0) mtp_layers(model, precision, shape, ops.head);
}

/// Attention part of kept_elements(), per token: {replicated, split}.
std::pair<double, double> attention_elements(const Model& model, double tp) {
    if (!is_latent(model))
        return {0, (qkv_width(model) + real(model.heads * head_dim(model))) / tp};
    const double heads = real(model.heads);
    const double per_head = 2 * real(head_dim(model)) + 2 * real(model.v_head_dim);
    const double ranks =
        real(2 * model.q_lora_rank + 2 * model.kv_lora_rank + model.qk_rope_head_dim);
    return {ranks, heads * per_head / tp};
}

double expert_elements(const Model& model, const ShardShape& shape) {
    const double width = real(model.moe_ffn_hidden) / real(shape.ep > 1 ? shape.etp : shape.tp);
    const double row = 2 * real(model.hidden) + (is_gated(model) ? 3 : 2) * width;
    double elements = routed_rows(model, shape) * row;
    if (model.moe_group_size > 0)  // the one-hot tensor and its gate values
        elements += 2 * routed_rows(model, shape) *
                    real(std::min(model.moe_group_size, model.seq_length * shape.micro_batch));
    return elements;
}

KeptElements transformer_elements(const Model& model, const LayerKind& kind,
                                  const ShardShape& shape) {
    const double tokens = real(model.seq_length) * real(shape.micro_batch) / real(shape.cp);
    const double h = real(model.hidden), t = real(shape.tp);
    const auto [whole, split] = attention_elements(model, t);
    KeptElements kept;
    const KeptInputs inputs = kept_inputs(model);
    kept.replicated =
        tokens * ((2 + (inputs.attention ? 1 : 0) + (inputs.mlp ? 1 : 0)) * h + whole);
    kept.split = tokens * split + mlp_elements(model, kind, shape).split;
    kept.scores = real(shape.micro_batch) * real(model.heads) / t * real(model.seq_length) *
                  real(model.seq_length) / real(shape.cp);
    if (!model.rms_norm) kept.dropout = tokens * 2 * h;
    return kept;
}

}  // namespace

ShardOperators shard_operators(const Model& model, Precision precision, const ShardShape& shape,
                               const LayerKind& kind) {
    ShardOperators ops;
    OpBuilder builder(ops.layer_forward, ops.layer_backward);
    layer(model, precision, shape, kind, builder);
    ends(model, precision, shape, ops);
    if (is_transformer_layer(kind))
        ops.attention.push_back(
            {attention_shape(model, precision, shape, kind), 1 / real(shape.cp)});
    const double parameters = shard_parameters(model, kind, shape).total();
    ops.optimizer = {OpKind::optimizer,
                     Pass::forward,
                     plain_precision(precision),
                     {std::max<std::int64_t>(1, static_cast<std::int64_t>(parameters))},
                     OptimizerKind::adamw};
    return ops;
}

ShardOperators shard_operators(const Model& model, Precision precision, const ShardShape& shape) {
    return shard_operators(model, precision, shape, layer_list(model).kinds.front());
}

std::vector<OpCount> mlp_operators(const Model& model, Precision precision, const ShardShape& shape,
                                   const LayerKind& kind) {
    std::vector<OpCount> forward, unused;
    OpBuilder builder(forward, unused);
    if (is_transformer_layer(kind)) transformer_mlp(model, precision, shape, kind, builder);
    return forward;
}

KeptInputs kept_inputs(const Model& model) {
    if (!is_adapted(model)) return {};
    using namespace lora_target;
    const std::int64_t adapted = adapted_matrices(model);
    return {(adapted & (qkv_proj | q_proj | k_proj | v_proj)) != 0,
            (adapted & (gate_up_proj | gate_proj | up_proj)) != 0, (adapted & down_proj) != 0};
}

LayerParameters shard_parameters(const Model& model, const LayerKind& kind,
                                 const ShardShape& shape) {
    LayerParameters p = layer_parameters(model, kind);
    const double t = real(shape.tp);
    p.dense = p.split / t + (p.dense - p.split);
    p.split /= t;
    p.expert /= shape.ep > 1 ? real(shape.ep * shape.etp) : t;
    p.active =
        p.dense + (model.experts > 0 ? p.expert * real(model.top_k) / real(model.experts) : 0);
    return p;
}

namespace {

/// Sides of an adapter's two matrices where the target has one.
double sides(std::int64_t adapted, std::int64_t target, double in, double out) {
    return (adapted & target) != 0 ? in + out : 0;
}

double attention_sides(const Model& model, double t) {
    const std::int64_t adapted = adapted_matrices(model);
    const double h = real(model.hidden), d = real(head_dim(model));
    const double queries = d * real(model.heads) / t, keys = d * real(model.kv_heads) / t;
    return sides(adapted, lora_target::qkv_proj, h, qkv_width(model) / t) +
           sides(adapted, lora_target::q_proj, h, queries) +
           sides(adapted, lora_target::k_proj, h, keys) +
           sides(adapted, lora_target::v_proj, h, keys) +
           sides(adapted, lora_target::o_proj, real(model.heads * value_head_dim(model)) / t, h);
}

double mlp_sides(const Model& model, double width) {
    const std::int64_t adapted = adapted_matrices(model);
    const double h = real(model.hidden);
    return sides(adapted, lora_target::gate_up_proj, h, 2 * width) +
           sides(adapted, lora_target::gate_proj, h, width) +
           sides(adapted, lora_target::up_proj, h, width) +
           sides(adapted, lora_target::down_proj, width, h);
}

}  // namespace

/// Adapters have the rank times the sum of their matrix's sides, of which tensor parallelism splits
/// the one that it splits of the matrix.
double trained_parameters(const Model& model, const LayerKind& kind, const ShardShape& shape) {
    if (!is_adapted(model)) return shard_parameters(model, kind, shape).total();
    const double t = real(shape.tp), rank = real(model.lora_rank);
    const double attention = attention_sides(model, t);
    if (kind.body != Body::moe)
        return rank * (attention + mlp_sides(model, real(model.ffn_hidden) / t));
    const double own = real(model.experts) / real(shape.ep),
                 width = real(model.moe_ffn_hidden) / (shape.ep > 1 ? real(shape.etp) : t),
                 shared = real(model.shared_ffn_hidden) / t;
    return rank * (attention + own * mlp_sides(model, width) +
                   (shared > 0 ? mlp_sides(model, shared) : 0));
}

double trained_share(const Model& model, const LayerList& list, const ShardShape& shape) {
    if (!is_adapted(model)) return 1;
    double trained = 0, held = 0;
    for (std::size_t k = 0; k < list.kinds.size(); ++k) {
        const double count = real(list.count_of(k));
        trained += count * trained_parameters(model, list.kinds[k], shape);
        held += count * shard_parameters(model, list.kinds[k], shape).total();
    }
    return std::min(1.0, trained / held);
}

std::int64_t shard_vocab(const Model& model, std::int64_t tp) {
    return ceil_div(model.vocab, 128 * tp) * 128;
}

double embedding_shard_parameters(const Model& model, std::int64_t tp) {
    if (model.family == Family::custom) return 0;
    if (model.family == Family::wide_resnet)
        return (49 * 3 + 2) * real(model.base_channels) / real(tp);
    return real(model.hidden) * real(shard_vocab(model, tp) + position_rows(model));
}

double head_shard_parameters(const Model& model, const ShardShape& shape) {
    const std::int64_t tp = shape.tp;
    if (model.family == Family::custom) return 0;
    if (model.family == Family::wide_resnet)
        return (real(final_channels(model)) / real(tp) + 1) * real(model.classes);
    const double h = real(model.hidden);
    const double head =
        h * real(shard_vocab(model, tp)) + 2 * h + (model.family == Family::bert ? h * h : 0);
    if (model.mtp_layers == 0) return head;
    const double layer = shard_parameters(model, last_kind(model), shape).total();
    return head + real(model.mtp_layers) * (layer + 2 * h * h / real(tp) + 6 * h);
}

KeptElements kept_elements(const Model& model, const LayerKind& kind, const ShardShape& shape) {
    if (is_transformer_layer(kind)) return transformer_elements(model, kind, shape);
    if (kind.body == Body::bottleneck) return bottleneck_kept_elements(model, kind, shape);
    KeptElements kept;
    kept.split = real(shape.micro_batch) * model.custom_layers[kind.index].activation_bytes /
                 element_bytes(model.precision);
    return kept;
}

KeptElements pointwise_elements(const Model& model, const LayerKind& kind,
                                const ShardShape& shape) {
    KeptElements again;
    if (!is_transformer_layer(kind)) return again;
    const double tokens = real(model.seq_length) * real(shape.micro_batch) / real(shape.cp);
    const double t = real(shape.tp);
    const bool moe = kind.body == Body::moe;
    again.replicated = 2 * tokens * real(model.hidden);
    again.split = tokens * real(moe ? model.shared_ffn_hidden : model.ffn_hidden) / t;
    if (moe)
        again.split += routed_rows(model, shape) * real(model.moe_ffn_hidden) /
                       (shape.ep > 1 ? real(shape.etp) : t);
    return again;
}

KeptElements mlp_elements(const Model& model, const LayerKind& kind, const ShardShape& shape) {
    KeptElements kept;
    if (!is_transformer_layer(kind)) return kept;
    const double tokens = real(model.seq_length) * real(shape.micro_batch) / real(shape.cp);
    const bool moe = kind.body == Body::moe;
    const double width = real(moe ? model.shared_ffn_hidden : model.ffn_hidden);
    const double matrices = (is_gated(model) ? 3 : 2) - (kept_inputs(model).down ? 0 : 1);
    kept.split = tokens * matrices * width / real(shape.tp);
    if (moe) kept.split += expert_elements(model, shape);
    return kept;
}

bool tp_fits(const Model& model, std::int64_t tp) {
    if (model.family == Family::wide_resnet) return model.base_channels % tp == 0;
    if (!is_transformer(model.family)) return tp == 1;
    const bool kv = is_latent(model) || model.kv_heads % tp == 0 || tp % model.kv_heads == 0;
    return model.heads % tp == 0 && kv && model.ffn_hidden % tp == 0 &&
           model.moe_ffn_hidden % tp == 0 && model.shared_ffn_hidden % tp == 0;
}

std::string tp_obstacle(const Model& model, std::int64_t tp) {
    if (tp_fits(model, tp)) return "";
    if (model.family == Family::wide_resnet)
        return fmt::format("tp{} does not divide the {} base channels of {}", tp,
                           model.base_channels, model.name);
    if (!is_transformer(model.family))
        return fmt::format("tp{}: {} is of family {}, which is not split: give tp1", tp, model.name,
                           to_string(model.family));
    if (model.heads % tp != 0)
        return fmt::format("tp{} does not divide the {} heads of {}", tp, model.heads, model.name);
    if (!is_latent(model) && model.kv_heads % tp != 0 && tp % model.kv_heads != 0)
        return fmt::format("tp{} and the {} key-value heads of {} do not divide one another", tp,
                           model.kv_heads, model.name);
    for (const char* key : {"ffn_hidden", "moe_ffn_hidden", "shared_ffn_hidden"})
        if (const std::int64_t width = model.*(find_integer_field(key)->member); width % tp != 0)
            return fmt::format("tp{} does not divide {} {} of {}", tp, key, width, model.name);
    return "";
}

bool ep_fits(const Model& model, std::int64_t ep) {
    return ep == 1 || (model.experts > 0 && model.experts % ep == 0);
}

bool etp_fits(const Model& model, std::int64_t tp, std::int64_t ep, std::int64_t etp) {
    return etp == 1 || (etp > 0 && ep > 1 && tp % etp == 0 && model.moe_ffn_hidden % etp == 0 &&
                        !model.linear_bias);
}

bool cp_fits(const Model& model, std::int64_t cp) {
    return cp == 1 || (is_transformer(model.family) && model.seq_length % (2 * cp) == 0);
}

bool default_sequence_parallel(const Model& model, std::int64_t tp) {
    return tp > 1 && is_transformer(model.family) && model.seq_length % tp == 0;
}

}  // namespace arena
