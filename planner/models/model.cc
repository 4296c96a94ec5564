// SPDX-License-Identifier: GPL-2.0-or-later
// Parameters and FLOPs of a whole model: its layers (layers.h) and what stands before and after
// them.
#include "planner/models/model.h"

#include <fmt/format.h>

#include "base/statistics.h"
#include "planner/models/layers.h"

namespace arena {

namespace {

/// 7x7 convolution and its batch norm; classifier with bias.
double resnet_ends(const Model& model) {
    const double stem = real(model.base_channels), classes = real(model.classes);
    return 49 * 3 * stem + 2 * stem + real(final_channels(model)) * classes + classes;
}

double resnet_end_flops(const Model& model) {
    const double edge = real((model.image_size + 1) / 2);
    return 2 * (edge * edge * 49 * 3 * real(model.base_channels) +
                real(final_channels(model)) * real(model.classes));
}

/// Token tables, positions, final norm; bert: token types, embedding norm, and the language-model
/// transform (dense, norm, output bias).
double transformer_ends(const Model& model) {
    const double h = real(model.hidden), vocab = real(model.vocab);
    const double tables = h * vocab * (model.tied_embedding ? 1 : 2);
    const double positions = h * real(position_rows(model));
    const double rest = model.family == Family::bert ? 2 * h + 2 * h + h * h + h + 2 * h + vocab
                                                     : (model.rms_norm ? 1 : 2) * h;
    return tables + positions + rest;
}

double end_parameters(const Model& model) {
    if (model.family == Family::custom) return 0;
    if (model.family == Family::wide_resnet) return resnet_ends(model);
    return transformer_ends(model);
}

/// Of one layer for multi-token prediction: a projection of the hidden state beside the next
/// token's embedding, their norms and the last one, a layer.
LayerParameters mtp_parameters(const Model& model, const LayerList& layers) {
    LayerParameters p = layer_parameters(model, layers.kinds[layers.runs.back().kind]);
    const double h = real(model.hidden), more = 2 * h * h + 3 * (model.rms_norm ? 1 : 2) * h;
    p.dense += more, p.active += more;
    return p;
}

double end_flops(const Model& model) {
    if (model.family == Family::custom) return 0;
    if (model.family == Family::wide_resnet) return resnet_end_flops(model);
    const double s = real(model.seq_length), h = real(model.hidden);
    const double transform = model.family == Family::bert ? 2 * s * h * h : 0;
    return 2 * s * h * real(model.vocab) + transform;
}

/// Sum over all layers of value(kind), which is asked once per kind.
template <typename Value>
double sum_over_layers(const LayerList& list, Value value) {
    double sum = 0;
    for (std::size_t k = 0; k < list.kinds.size(); ++k)
        sum += real(list.count_of(k)) * value(list.kinds[k]);
    return sum;
}

}  // namespace

std::string adapter_words(const Model& model) {
    if (!is_adapted(model)) return {};
    const bool is_narrow = model.base_bits != 0 && model.base_bits != 16;
    const std::string matrices =
        model.lora_targets != 0 ? lora_target_names(model.lora_targets, ", ")
                                : fmt::format("attention{}", model.lora_mlp > 0 ? " and MLPs" : "");
    return fmt::format("LoRA of rank {} on {}{}", model.lora_rank, matrices,
                       is_narrow ? fmt::format(", weights of {} bits", model.base_bits) : "");
}

bool is_gated(const Model& model) { return model.gated_mlp; }

bool is_transformer(Family family) {
    return family != Family::wide_resnet && family != Family::custom;
}

double qkv_width(const Model& model) {
    return real(head_dim(model)) * real(model.heads + 2 * model.kv_heads);
}

std::int64_t position_rows(const Model& model) {
    if (!model.learned_positions) return 0;
    return model.positions > 0 ? model.positions : model.seq_length;
}

double parameter_count(const Model& model) {
    const LayerList layers = layer_list(model);
    const double layers_sum = sum_over_layers(
        layers, [&](const LayerKind& kind) { return layer_parameters(model, kind).total(); });
    const double mtp =
        model.mtp_layers > 0 ? real(model.mtp_layers) * mtp_parameters(model, layers).total() : 0;
    return end_parameters(model) + layers_sum + mtp;
}

double active_parameter_count(const Model& model) {
    const LayerList layers = layer_list(model);
    const double layers_sum = sum_over_layers(
        layers, [&](const LayerKind& kind) { return layer_parameters(model, kind).active; });
    const double mtp =
        model.mtp_layers > 0 ? real(model.mtp_layers) * mtp_parameters(model, layers).active : 0;
    return end_parameters(model) + layers_sum + mtp;
}

double forward_flops(const Model& model, double head_tokens) {
    return forward_flops(model, layer_list(model), head_tokens);
}

double forward_flops(const Model& model, const LayerList& layers, double head_tokens) {
    const double sum = sum_over_layers(
        layers, [&](const LayerKind& kind) { return layer_forward_flops(model, kind); });
    const double head = head_tokens * end_flops(model);
    if (model.mtp_layers == 0) return head + sum;
    const double h = real(model.hidden);
    const double mtp = layer_forward_flops(model, layers.kinds[layers.runs.back().kind]) +
                       4 * real(model.seq_length) * h * h + head;
    return head + sum + real(model.mtp_layers) * mtp;
}

}  // namespace arena
