// SPDX-License-Identifier: GPL-2.0-or-later
// Sources: Narayanan et al. 2021 (dense layers); DeepSeek-V2/V3 reports (latent attention, shared
// experts); He et al. 2015 and Zagoruyko and Komodakis 2016 (bottleneck blocks, widths).
#include "planner/models/layers.h"

#include <algorithm>

#include "base/statistics.h"
#include "core/profile.h"
#include "planner/models/model.h"

namespace arena {

namespace {

using Body = LayerKind::Body;

/// Matrices of an MLP of this width, without biases.
double mlp_matrices(const Model& model, std::int64_t width) {
    return (is_gated(model) ? 3 : 2) * real(model.hidden) * real(width);
}

double mlp_biases(const Model& model, std::int64_t width) {
    if (!model.linear_bias) return 0;
    return (is_gated(model) ? 2 : 1) * real(width) + real(model.hidden);
}

double latent_matrices(const Model& model) {
    const double h = real(model.hidden), heads = real(model.heads);
    const double query = heads * real(model.qk_nope_head_dim + model.qk_rope_head_dim);
    const double q_rank = real(model.q_lora_rank), kv_rank = real(model.kv_lora_rank);
    const double queries = model.q_lora_rank > 0 ? q_rank * (h + query) : h * query;
    const double keys = h * (kv_rank + real(model.qk_rope_head_dim)) +
                        kv_rank * heads * real(model.qk_nope_head_dim + model.v_head_dim);
    return queries + keys + heads * real(model.v_head_dim) * h;
}

double attention_matrices(const Model& model) {
    if (is_latent(model)) return latent_matrices(model);
    return real(model.hidden) * (qkv_width(model) + real(model.heads * head_dim(model)));
}

double attention_vectors(const Model& model) {
    if (is_latent(model)) return real(model.q_lora_rank + model.kv_lora_rank);  // their norms
    double vectors = model.qk_norm ? 2 * real(head_dim(model)) : 0;
    if (model.linear_bias || model.qkv_bias) vectors += qkv_width(model);
    if (model.linear_bias) vectors += real(model.hidden);
    return vectors;
}

double norm_parameters(const Model& model) {
    return 2 * (model.rms_norm ? 1 : 2) * real(model.hidden);
}

/// Compressions of latent attention: whole on every tensor-parallel rank.
double unsplit_matrices(const Model& model) {
    if (!is_latent(model)) return 0;
    return real(model.hidden) *
           real(model.q_lora_rank + model.kv_lora_rank + model.qk_rope_head_dim);
}

LayerParameters transformer_parameters(const Model& model, const LayerKind& kind) {
    const bool moe = kind.body == Body::moe;
    const std::int64_t width = moe ? model.shared_ffn_hidden : model.ffn_hidden;
    LayerParameters p;
    p.split = attention_matrices(model) - unsplit_matrices(model) + mlp_matrices(model, width);
    p.dense = p.split + unsplit_matrices(model) + attention_vectors(model) + norm_parameters(model);
    if (!moe) {
        p.dense += mlp_biases(model, width);
        p.active = p.dense;
        return p;
    }
    const double expert =
        mlp_matrices(model, model.moe_ffn_hidden) + mlp_biases(model, model.moe_ffn_hidden);
    p.dense += real(model.experts) * (real(model.hidden) + (model.linear_bias ? 1 : 0));
    p.expert = real(model.experts) * expert;
    p.active = p.dense + real(model.top_k) * expert;
    return p;
}

/// Convolutions without bias, each with a batch norm (scale and shift).
double bottleneck_parameters(const Bottleneck& b, bool projects) {
    const double in = real(b.in), first = real(b.first), inner = real(b.inner), out = real(b.out);
    const double matrices = in * first + 9 * first * inner + inner * out;
    return matrices + 2 * (first + inner + out) + (projects ? in * out + 2 * out : 0);
}

double bottleneck_flops(const Bottleneck& b, bool projects) {
    const double in = real(b.in), first = real(b.first), inner = real(b.inner), out = real(b.out);
    const double before = real(b.edge_in) * real(b.edge_in);
    const double after = real(b.edge_out) * real(b.edge_out);
    return 2 * before * in * first +
           2 * after * (9 * first * inner + inner * out + (projects ? in * out : 0));
}

/// Equal neighbours become one run.
void append(LayerList& list, const LayerKind& kind, std::int64_t count) {
    if (count <= 0) return;
    auto it = std::find(list.kinds.begin(), list.kinds.end(), kind);
    if (it == list.kinds.end()) it = list.kinds.insert(it, kind);
    const auto index = static_cast<std::size_t>(it - list.kinds.begin());
    if (!list.runs.empty() && list.runs.back().kind == index)
        list.runs.back().count += count;
    else
        list.runs.push_back({index, count});
}

bool is_moe_layer(const Model& model, std::int64_t layer) {
    if (model.family != Family::moe || layer < model.dense_layers) return false;
    const std::int64_t every = std::max<std::int64_t>(1, model.moe_every);
    return (layer - model.dense_layers + 1) % every == 0;
}

std::int64_t window_of(const Model& model, std::int64_t layer) {
    if (model.window == 0 || model.window >= model.seq_length) return 0;
    const std::int64_t every = model.full_attention_every;
    return every > 0 && (layer + 1) % every == 0 ? 0 : model.window;
}

/// Every nth layer differs from its neighbours.
bool alternates(const Model& model) {
    return (model.family == Family::moe && model.moe_every > 1) ||
           (model.window != 0 && model.full_attention_every > 0);
}

LayerList transformer_layers(const Model& model) {
    LayerList list;
    if (!alternates(model)) {  // two runs at most; this is on the path of every price
        const std::int64_t dense =
            model.family == Family::moe ? std::min(model.dense_layers, model.layers) : model.layers;
        append(list, {Body::dense, window_of(model, 0), 0, false}, dense);
        append(list, {Body::moe, window_of(model, 0), 0, false}, model.layers - dense);
        return list;
    }
    for (std::int64_t i = 0; i < model.layers; ++i)
        append(list,
               {is_moe_layer(model, i) ? Body::moe : Body::dense, window_of(model, i), 0, false},
               1);
    return list;
}

LayerList bottleneck_layers(const Model& model) {
    LayerList list;
    for (std::size_t stage = 0; stage < model.blocks.size(); ++stage) {
        append(list, {Body::bottleneck, 0, stage, true}, 1);
        append(list, {Body::bottleneck, 0, stage, false}, model.blocks[stage] - 1);
    }
    return list;
}

LayerList custom_layers(const Model& model) {
    LayerList list;
    for (std::size_t i = 0; i < model.custom_layers.size(); ++i)
        append(list, {Body::custom, 0, i, false}, model.custom_layers[i].count);
    return list;
}

}  // namespace

std::int64_t LayerList::count_of(std::size_t kind) const {
    std::int64_t sum = 0;
    for (const LayerRun& run : runs)
        if (run.kind == kind) sum += run.count;
    return sum;
}

LayerList layer_list(const Model& model) {
    if (model.family == Family::wide_resnet) return bottleneck_layers(model);
    if (model.family == Family::custom) return custom_layers(model);
    return transformer_layers(model);
}

double first_input_elements(const Model& model, const LayerList& list) {
    const LayerKind& first = list.kinds[list.runs.front().kind];
    if (first.body != Body::bottleneck) return layer_output_elements(model, first);
    const Bottleneck b = bottleneck(model, first);
    return real(b.in) * real(b.edge_in) * real(b.edge_in);
}

LayerParameters layer_parameters(const Model& model, const LayerKind& kind) {
    if (kind.body == Body::bottleneck) {
        const double p = bottleneck_parameters(bottleneck(model, kind), kind.is_first);
        return {p, p, 0, p};
    }
    if (kind.body == Body::custom) {
        const double p =
            model.custom_layers[kind.index].parameter_bytes / element_bytes(model.precision);
        return {p, 0, 0, p};
    }
    return transformer_parameters(model, kind);
}

double layer_forward_flops(const Model& model, const LayerKind& kind) {
    if (kind.body == Body::custom) return model.custom_layers[kind.index].forward_flops;
    if (kind.body == Body::bottleneck)
        return bottleneck_flops(bottleneck(model, kind), kind.is_first);
    const double s = real(model.seq_length);
    double matrices = attention_matrices(model);
    if (kind.body == Body::dense)
        matrices += mlp_matrices(model, model.ffn_hidden);
    else
        matrices += real(model.experts) * real(model.hidden) +
                    mlp_matrices(model, model.shared_ffn_hidden) +
                    real(model.top_k) * mlp_matrices(model, model.moe_ffn_hidden);
    const double scores = 2 * s * s * real(model.heads) *
                          real(head_dim(model) + value_head_dim(model)) *
                          window_share(model.seq_length, kind.window);
    return 2 * s * matrices + scores;
}

double layer_output_elements(const Model& model, const LayerKind& kind) {
    if (kind.body == Body::bottleneck) {
        const Bottleneck b = bottleneck(model, kind);
        return real(b.out) * real(b.edge_out) * real(b.edge_out);
    }
    if (kind.body == Body::custom) {
        const CustomLayer& layer = model.custom_layers[kind.index];
        const double bytes = layer.output_bytes > 0 ? layer.output_bytes : layer.activation_bytes;
        return bytes / element_bytes(model.precision);
    }
    return real(model.seq_length) * real(model.hidden);
}

std::int64_t adapted_matrices(const Model& model) {
    using namespace lora_target;
    if (!is_adapted(model)) return 0;
    if (model.lora_targets != 0) return model.lora_targets;
    const std::int64_t mlp = (is_gated(model) ? gate_up_proj : up_proj) | down_proj;
    return qkv_proj | o_proj | (model.lora_mlp > 0 ? mlp : 0);
}

bool is_latent(const Model& model) { return model.kv_lora_rank > 0; }

std::int64_t head_dim(const Model& model) {
    if (is_latent(model)) return model.qk_nope_head_dim + model.qk_rope_head_dim;
    return model.head_dim > 0 ? model.head_dim : model.hidden / model.heads;
}

std::int64_t value_head_dim(const Model& model) {
    return is_latent(model) ? model.v_head_dim : head_dim(model);
}

double window_share(std::int64_t seq_length, std::int64_t window) {
    if (window <= 0 || window >= seq_length) return 1;
    const double unseen = 1 - real(window) / real(seq_length);
    return 1 - unseen * unseen;
}

std::optional<LayerStep> regular_layers(const std::vector<int>& marks, std::int64_t layers) {
    if (static_cast<std::int64_t>(marks.size()) != layers) return std::nullopt;
    std::vector<std::int64_t> marked;
    for (std::int64_t i = 0; i < layers; ++i)
        if (marks[static_cast<std::size_t>(i)] != 0) marked.push_back(i);
    if (marked.empty()) return std::nullopt;
    const auto count = static_cast<std::int64_t>(marked.size());
    const std::int64_t every = count > 1 ? marked[1] - marked[0] : layers;
    for (std::size_t i = 1; i < marked.size(); ++i)
        if (marked[i] - marked[i - 1] != every) return std::nullopt;
    const std::int64_t before = marked[0] - every + 1;
    if (before < 0)
        return count * every == layers ? std::optional(LayerStep{0, every}) : std::nullopt;
    if ((layers - before) / every != count) return std::nullopt;
    return LayerStep{before, every};
}

std::int64_t stage_edge(const Model& model, std::size_t stage) {
    std::int64_t edge = model.image_size;
    for (std::size_t halved = 0; halved < stage + 2; ++halved) edge = (edge + 1) / 2;
    return edge;
}

std::int64_t final_channels(const Model& model) {
    return 4 * model.base_channels << (model.blocks.size() - 1);
}

Bottleneck bottleneck(const Model& model, const LayerKind& kind) {
    const std::int64_t filters = model.base_channels << kind.index;
    Bottleneck b{};
    b.out = 4 * filters;
    b.inner = model.width_factor * filters;
    b.first = model.widen_first ? b.inner : filters;
    b.in = !kind.is_first ? b.out : kind.index == 0 ? model.base_channels : 2 * filters;
    b.stride = kind.is_first && kind.index > 0 ? 2 : 1;
    b.edge_out = stage_edge(model, kind.index);
    b.edge_in = b.stride == 2 ? stage_edge(model, kind.index - 1) : b.edge_out;
    return b;
}

}  // namespace arena
