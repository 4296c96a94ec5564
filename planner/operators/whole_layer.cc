// SPDX-License-Identifier: GPL-2.0-or-later
// See whole_layer.h. A layer's operators are found by writing its widths into a model and asking
// for that model's: there is one list of a layer's operators.
#include "planner/operators/whole_layer.h"

#include <algorithm>

#include "planner/models/layers.h"
#include "planner/models/model.h"
#include "planner/operators/op_builder.h"

namespace arena {

namespace {

bool runs_whole(const Model& model, Precision precision, const ShardShape& shape,
                const LayerKind& kind) {
    return kind.body == LayerKind::Body::dense && kind.window == 0 &&
           is_transformer(model.family) && !is_latent(model) && !model.qk_norm &&
           !is_adapted(model) && plain_precision(precision) == precision && shape.cp == 1 &&
           (!shape.sequence_parallel || model.seq_length % shape.tp == 0);
}

}  // namespace

std::optional<OpShape> whole_layer(const Model& model, Precision precision, const ShardShape& shape,
                                   const LayerKind& kind, Pass pass) {
    if (!runs_whole(model, precision, shape, kind)) return std::nullopt;
    LayerVariant v;
    v.is_causal = model.family != Family::bert;
    v.is_rms = model.rms_norm;
    v.is_gated = is_gated(model);
    v.has_bias = model.linear_bias;
    v.heads = model.heads / shape.tp;
    v.kv_heads = std::max<std::int64_t>(1, model.kv_heads / shape.tp);
    v.head_dim = head_dim(model);
    v.sequence_ranks = shape.sequence_parallel ? shape.tp : 1;
    return OpShape{OpKind::layer,
                   pass,
                   precision,
                   {shape.micro_batch, model.seq_length, model.hidden, model.ffn_hidden / shape.tp},
                   v};
}

OpShape as_graph(OpShape plain) {
    auto v = variant_as<LayerVariant>(plain);
    v.is_graph = true;
    plain.variant = v;
    return plain;
}

std::vector<OpCount> operators_of(const OpShape& layer) {
    const auto v = variant_as<LayerVariant>(layer);
    const std::int64_t ranks = v.sequence_ranks;
    Model model;
    model.family = v.is_causal ? Family::gpt : Family::bert;
    model.layers = 1;
    model.seq_length = layer.dims[1];
    model.hidden = layer.dims[2];
    model.ffn_hidden = layer.dims[3] * ranks;
    model.heads = v.heads * ranks;
    model.kv_heads = v.kv_heads * ranks;
    model.head_dim = v.head_dim;
    model.rms_norm = v.is_rms;
    model.gated_mlp = v.is_gated;
    model.linear_bias = v.has_bias;
    std::vector<OpCount> forward, backward;
    OpBuilder builder(forward, backward);
    transformer_layer(model, layer.precision, {ranks, layer.dims[0], ranks > 1}, {}, builder);
    return layer.pass == Pass::forward ? forward : backward;
}

PassTime pass_time(const Pricer& pricer, const std::optional<OpShape>& layer, double sum_s) {
    if (!layer || !pricer.has_layers()) return {sum_s, 0, 0};
    const OpShape graph = as_graph(*layer);
    PassTime time{sum_s, pricer.issue_seconds(*layer), 0};
    for (const OpShape* shape : {&graph, &*layer}) {
        const std::optional<OpTime> whole = pricer.whole(*shape, sum_s);
        if (!whole) continue;
        time.seconds = whole->seconds;
        time.exact_s = whole->evidence == Evidence::exact ? whole->seconds : 0;
        break;
    }
    return time;
}

}  // namespace arena
