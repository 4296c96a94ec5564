// SPDX-License-Identifier: GPL-2.0-or-later
// Ranges and relations of a model's facts, and the defaults of its family. Every reader ends here,
// and so does every record that a stranger wrote: no later formula meets a zero, a negative, a fact
// that contradicts another, or a product that overflows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "planner/models/layers.h"
#include "planner/models/model.h"

namespace arena {

namespace {

constexpr double max_parameters = 1e14;
constexpr std::size_t max_custom_layers = 4096;
constexpr std::int64_t max_layers = 10000;

std::string spelled(std::string_view key, bool is_inline) {
    std::string text(key);
    if (is_inline) std::replace(text.begin(), text.end(), '_', '-');
    return text;
}

bool has_dense_layers(const Model& model) {
    return model.family != Family::moe || model.dense_layers > 0 || model.moe_every > 1;
}

/// Fields without which the family has no cost, in the order people write them.
std::vector<const char*> needed_fields(const Model& model) {
    if (model.family == Family::custom) return {};
    if (model.family == Family::wide_resnet) return {"base_channels", "image_size"};
    std::vector<const char*> keys{"layers", "hidden", "heads"};
    if (has_dense_layers(model)) keys.push_back("ffn_hidden");
    if (model.family == Family::moe)
        keys.insert(keys.end(), {"experts", "top_k", "moe_ffn_hidden"});
    keys.insert(keys.end(), {"vocab", "seq_length"});
    return keys;
}

std::string missing_fields(const Model& model, bool is_inline) {
    std::string list;
    for (const char* key : needed_fields(model)) {
        if (model.*(find_integer_field(key)->member) != 0) continue;
        list += list.empty() ? "" : ", ";
        list += spelled(key, is_inline);
    }
    if (model.family == Family::wide_resnet && model.blocks.empty())
        list += list.empty() ? "depth or blocks" : ", depth or blocks";
    if (model.family == Family::custom && model.custom_layers.empty()) list = "layers";
    return list;
}

bool applies(FieldGroup group, Family family) {
    switch (group) {
        case FieldGroup::transformer:
        case FieldGroup::attention:
        case FieldGroup::adapter:
            return is_transformer(family);
        case FieldGroup::latent:
            return family == Family::gpt || family == Family::llama || family == Family::moe;
        case FieldGroup::moe:
            return family == Family::moe;
        case FieldGroup::resnet:
            return family == Family::wide_resnet;
    }
    return false;
}

Error foreign(std::string_view key, const Model& model) {
    if (key == "seq_length" && model.family == Family::custom)
        return usage_error(
            "seq_length is no fact of family custom, whose layers have the samples of their file: "
            "leave it out (t5, mamba and so on: arena.seq_length in the file)");
    return usage_error(
        fmt::format("{} is no fact of family {}: leave it out", key, to_string(model.family)));
}

Status check_ranges(const Model& model) {
    for (const IntegerField& field : integer_fields()) {
        const std::int64_t value = model.*field.member;
        const bool counts_layers = field.member == &Model::layers;
        if (!applies(field.group, model.family) && !counts_layers) {
            if (value != 0) return foreign(field.key, model);
            continue;
        }
        const bool needed = field.group == FieldGroup::transformer;
        if ((needed || value != 0) && (value < field.min || value > field.max))
            return usage_error(fmt::format("{} must be an integer from {} to {}, not {}", field.key,
                                           field.min, field.max, value));
    }
    return Done{};
}

Status check_capacity(const Model& model) {
    const double capacity = model.capacity_factor;
    if (!(capacity >= 0 && capacity <= max_capacity_factor))
        return usage_error(fmt::format("capacity_factor must be a number from 0 to {}, not {}",
                                       max_capacity_factor, capacity));
    if (capacity > 0 && model.family != Family::moe) return foreign("capacity_factor", model);
    if (model.moe_group_size > 0 && capacity == 0)
        return usage_error(
            "moe_group_size belongs to GShard's dispatch, which has a capacity: give a "
            "capacity_factor above 0");
    return Done{};
}

Status check_latent(const Model& model) {
    const bool latent = is_latent(model);
    for (const auto& [key, value] : {std::pair("qk_nope_head_dim", model.qk_nope_head_dim),
                                     std::pair("qk_rope_head_dim", model.qk_rope_head_dim),
                                     std::pair("v_head_dim", model.v_head_dim)}) {
        const bool given = value != 0;
        if (given != latent)
            return usage_error(fmt::format(
                "kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim and v_head_dim go together "
                "(latent attention): {} is {}",
                key, given ? "there alone" : "missing"));
    }
    if (model.q_lora_rank > 0 && !latent)
        return usage_error("q_lora_rank needs kv_lora_rank (latent attention)");
    if (latent && (model.kv_heads != model.heads || model.head_dim != 0))
        return usage_error(
            "latent attention has as many kv_heads as heads and head sizes of its own: leave "
            "kv_heads and head_dim out");
    return Done{};
}

Status check_attention(const Model& model) {
    if (model.head_dim == 0 && !is_latent(model) && model.hidden % model.heads != 0)
        return usage_error(
            fmt::format("hidden {} is not a multiple of heads {}: give a number of "
                        "heads that divides hidden, or head_dim",
                        model.hidden, model.heads));
    if (model.heads % model.kv_heads != 0)
        return usage_error(
            fmt::format("heads {} is not a multiple of kv_heads {}: give a number of "
                        "kv_heads that divides heads",
                        model.heads, model.kv_heads));
    if (model.full_attention_every > 0 && model.window == 0)
        return usage_error("full_attention_every needs a window");
    if (model.positions > 0 && !model.learned_positions)
        return usage_error("positions needs learned_positions: true");
    if (model.positions > 0 && model.positions < model.seq_length)
        return usage_error(fmt::format("seq_length {} is more than the {} positions",
                                       model.seq_length, model.positions));
    return check_latent(model);
}

bool has_any(const Model& model, std::int64_t targets) {
    return (model.lora_targets & targets) != 0;
}

/// Each matrix once, and none that the layers have not.
Status check_targets(const Model& model) {
    using namespace lora_target;
    constexpr std::int64_t apart = q_proj | k_proj | v_proj,
                           mlp = gate_proj | up_proj | gate_up_proj | down_proj;
    if (model.lora_mlp != 0)
        return usage_error("lora_targets says which matrices are adapted: leave lora_mlp out");
    if (is_latent(model))
        return usage_error(
            "lora_targets has no names for the matrices of latent attention: "
            "leave it out, and all of them are adapted");
    if (model.family == Family::moe && has_any(model, mlp))
        return usage_error(
            "lora_targets names matrices of attention alone in a moe model: "
            "lora_mlp: 1 adapts those of experts");
    if ((has_any(model, qkv_proj) && has_any(model, apart)) ||
        (has_any(model, gate_up_proj) && has_any(model, gate_proj | up_proj)))
        return usage_error("lora_targets names a matrix and a part of it: name one of them");
    if (has_any(model, gate_proj | gate_up_proj) && !is_gated(model))
        return usage_error("lora_targets: an MLP without gate has up_proj and down_proj alone");
    return Done{};
}

Status check_adapters(const Model& model) {
    if (model.base_bits != 0 && model.base_bits != 4 && model.base_bits != 8 &&
        model.base_bits != 16)
        return usage_error(fmt::format("base_bits must be 4, 8 or 16, not {}", model.base_bits));
    if (is_adapted(model)) return model.lora_targets == 0 ? Done{} : check_targets(model);
    if (model.lora_targets != 0) return usage_error("lora_targets needs lora_rank (adapters)");
    if (model.lora_mlp != 0) return usage_error("lora_mlp needs lora_rank (adapters)");
    if (model.base_bits != 0)
        return usage_error("base_bits needs lora_rank: only frozen weights are stored in few bits");
    return Done{};
}

Status check_experts(const Model& model) {
    if (model.family != Family::moe) return Done{};
    if (model.experts == 0 || model.top_k == 0 || model.moe_ffn_hidden == 0)
        return usage_error("a moe model needs experts, top_k and moe_ffn_hidden, 1 or more each");
    if (model.top_k > model.experts)
        return usage_error(fmt::format("top_k {} is more than the {} experts: give 1 to {}",
                                       model.top_k, model.experts, model.experts));
    const std::int64_t rest = model.layers - model.dense_layers;
    if (rest < std::max<std::int64_t>(1, model.moe_every))
        return usage_error(
            fmt::format("dense_layers {} and moe_every {} leave no MoE layer among {} layers",
                        model.dense_layers, model.moe_every, model.layers));
    return Done{};
}

Status check_resnet(const Model& model) {
    const bool is_resnet = model.family == Family::wide_resnet;
    if (!is_resnet) return model.blocks.empty() ? Status(Done{}) : foreign("blocks", model);
    if (model.base_channels == 0 || model.image_size == 0 || model.width_factor == 0 ||
        model.classes == 0)
        return usage_error(
            "a wide_resnet model needs base_channels, width_factor, image_size and classes");
    if (model.blocks.empty() || model.blocks.size() > max_resnet_stages)
        return usage_error(
            fmt::format("blocks must be a list of 1 to {} integers", max_resnet_stages));
    for (const std::int64_t count : model.blocks)
        if (count < 1 || count > max_resnet_blocks)
            return usage_error(
                fmt::format("blocks: {} is not an integer from 1 to {}", count, max_resnet_blocks));
    if (std::accumulate(model.blocks.begin(), model.blocks.end(), std::int64_t{0}) != model.layers)
        return usage_error("layers of a wide_resnet must be the sum of its blocks");
    return Done{};
}

Status check_custom_layer(const CustomLayer& layer, std::size_t index) {
    const auto bad = [](double value) { return !(value >= 0 && value <= max_layer_cost); };
    if (layer.count < 1 || layer.count > max_layers)
        return usage_error(
            fmt::format("layers[{}]: count must be an integer from 1 to {}", index, max_layers));
    if (bad(layer.forward_flops) || bad(layer.parameter_bytes) || bad(layer.activation_bytes) ||
        bad(layer.output_bytes))
        return usage_error(fmt::format(
            "layers[{}]: FLOPs and bytes must be numbers from 0 to {:.0e}", index, max_layer_cost));
    if (layer.forward_flops + layer.parameter_bytes + layer.activation_bytes == 0)
        return usage_error(
            fmt::format("layers[{}]: one of forward_flops, parameter_bytes and "
                        "activation_bytes must be above 0",
                        index));
    if (layer.operators.size() > max_layer_operators)
        return usage_error(fmt::format("layers[{}]: at most {} operators are accepted", index,
                                       max_layer_operators));
    constexpr double rounding = 1.01;
    double flops = 0;
    for (const LayerOperator& op : layer.operators) {
        if (op.count > 1000000 || *std::max_element(op.sizes.begin(), op.sizes.end()) > 1LL << 40)
            return usage_error(
                fmt::format("layers[{}]: the operator {} has a size above 2^40, or "
                            "runs more than 1000000 times",
                            index, to_string(op)));
        flops += operator_flops(op);
    }
    if (flops > rounding * layer.forward_flops)
        return usage_error(fmt::format(
            "layers[{}]: its operators have {:.4g} FLOPs, more than its forward_flops {:.4g}",
            index, flops, layer.forward_flops));
    return Done{};
}

Status check_custom(const Model& model) {
    if (model.family != Family::custom)
        return model.custom_layers.empty() ? Status(Done{}) : foreign("a list of layers", model);
    if (model.custom_layers.empty() || model.custom_layers.size() > max_custom_layers)
        return usage_error(fmt::format("a custom model has 1 to {} entries in its list of layers",
                                       max_custom_layers));
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < model.custom_layers.size(); ++i) {
        if (Status s = check_custom_layer(model.custom_layers[i], i); !s) return s;
        sum += model.custom_layers[i].count;
    }
    if (sum != model.layers)
        return usage_error("layers of a custom model must be the sum of its counts");
    return Done{};
}

/// Stages of the residual networks that have a usual number of layers (He et al. 2015; 200: Alpa).
std::vector<std::int64_t> blocks_of_depth(std::int64_t depth) {
    switch (depth) {
        case 50:
            return {3, 4, 6, 3};
        case 101:
            return {3, 4, 23, 3};
        case 152:
            return {3, 8, 36, 3};
        case 200:
            return {3, 24, 36, 3};
        default:
            return {};
    }
}

Status complete_resnet(Model& model) {
    if (model.width_factor == 0) model.width_factor = 1;
    if (model.classes == 0) model.classes = 1000;
    if (model.depth != 0) {
        const std::vector<std::int64_t> usual = blocks_of_depth(model.depth);
        if (usual.empty())
            return usage_error(
                fmt::format("depth {} has no usual blocks; accepted: 50, 101, 152, 200, or give "
                            "blocks as a list",
                            model.depth));
        if (!model.blocks.empty() && model.blocks != usual)
            return usage_error(fmt::format("depth {} has blocks [{}]: give one of the two",
                                           model.depth, fmt::join(usual, ", ")));
        model.blocks = usual;
        model.depth = 0;  // blocks say it
    }
    model.layers = 0;
    for (const std::int64_t count : model.blocks)
        model.layers += std::clamp<std::int64_t>(count, 0, max_layers);
    return Done{};
}

/// What lora_mlp says is said by it.
void complete_targets(Model& model) {
    using namespace lora_target;
    constexpr std::int64_t attention = qkv_proj | o_proj;
    const std::int64_t whole = attention | (is_gated(model) ? gate_up_proj : up_proj) | down_proj;
    if (!is_adapted(model) || model.lora_mlp != 0 || model.family == Family::moe) return;
    if (model.lora_targets == whole) model.lora_mlp = 1;
    if (model.lora_targets == attention || model.lora_targets == whole) model.lora_targets = 0;
}

void complete_transformer(Model& model) {
    if (model.kv_heads == 0) model.kv_heads = model.heads;
    if (model.family == Family::gpt || model.family == Family::bert)
        if (model.ffn_hidden == 0) model.ffn_hidden = 4 * model.hidden;
    if (!has_dense_layers(model)) model.ffn_hidden = model.moe_ffn_hidden;  // of no layer
    if (model.head_dim * model.heads == model.hidden) model.head_dim = 0;
    if (model.moe_every == 1) model.moe_every = 0;
    if (model.positions == model.seq_length) model.positions = 0;
    complete_targets(model);
}

Status complete(Model& model) {
    if (is_transformer(model.family)) complete_transformer(model);
    if (model.family == Family::wide_resnet) return complete_resnet(model);
    if (model.family == Family::custom) {
        model.layers = 0;
        for (const CustomLayer& layer : model.custom_layers)
            model.layers += std::clamp<std::int64_t>(layer.count, 0, max_layers);
    }
    return Done{};
}

}  // namespace

std::string clean_model_name(std::string_view name) {
    std::string clean(name.substr(0, 64));
    for (char& c : clean) {
        const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("._+/-").find(c) != std::string_view::npos;
        if (!fine) c = '-';
    }
    return clean.empty() ? "model" : clean;
}

Status check_model(const Model& model) {
    for (Status (*check)(const Model&) : {check_ranges, check_resnet, check_custom})
        if (Status status = check(model); !status) return status;
    if (is_transformer(model.family))
        for (Status (*check)(const Model&) : {check_attention, check_experts, check_adapters})
            if (Status status = check(model); !status) return status;
    if (Status status = check_capacity(model); !status) return status;
    if (const double count = parameter_count(model); !(count <= max_parameters))
        return usage_error(
            fmt::format("the model would have {:.3g} parameters; at most {:.0e} are "
                        "accepted",
                        count, max_parameters));
    return Done{};
}

Status check_applies(FieldGroup group, std::string_view key, const Model& model) {
    return applies(group, model.family) ? Status(Done{}) : foreign(key, model);
}

Result<Model> complete_model(Model model, std::string_view where, bool is_inline) {
    Status status = complete(model);
    if (status)
        if (const std::string missing = missing_fields(model, is_inline); !missing.empty())
            return usage_error("the model lacks " + missing, std::string(where));
    if (status) status = check_model(model);
    if (!status) {
        Error error = status.error();
        if (is_inline) error.text = spelled(error.text, true);
        error.where = where;
        return error;
    }
    return model;
}

}  // namespace arena
