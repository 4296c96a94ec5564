// SPDX-License-Identifier: GPL-2.0-or-later
// Our flat model YAML -> Model, and the choice between the four file formats.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "base/yaml.h"
#include "planner/models/megatron_args.h"
#include "planner/models/model.h"
#include "planner/models/readers.h"

namespace arena {

namespace {

constexpr std::string_view ignore_key = "arena.ignore";

/// Keys that the user declares to be without effect, as words to pass over.
Status read_ignored(const YamlNode& root, std::string_view file, IgnoredWords& ignored) {
    const YamlNode* node = root.find(ignore_key);
    if (node == nullptr) return Done{};
    if (node->kind != YamlNode::Kind::sequence)
        return usage_error("arena.ignore must be a list of keys", node->where(file));
    for (const YamlNode& item : node->items) {
        Result<std::string> word = yaml_string(item, file, ignore_key, 128);
        if (!word) return word.error();
        ignored.ask(std::move(*word));
    }
    return Done{};
}

std::vector<std::string_view> known_keys() {
    std::vector<std::string_view> keys{"name",   "family",    "precision", "capacity_factor",
                                       "blocks", "trainable", ignore_key};
    for (const FlagField& field : flag_fields()) keys.push_back(field.key);
    for (const IntegerField& field : integer_fields()) keys.push_back(field.key);
    return keys;
}

Status read_family(const YamlNode& root, std::string_view file, Model& model) {
    const YamlNode* node = root.find("family");
    if (node == nullptr)
        return usage_error(
            fmt::format("the key family is missing; accepted: {}", accepted_families),
            std::string(file));
    const Result<std::string> text = yaml_string(*node, file, "family");
    if (!text) return text.error();
    const std::optional<Family> family = parse_family(*text);
    if (!family)
        return usage_error(fmt::format("family '{}' is unknown; accepted: {}, {}",
                                       printable(*text, 40), accepted_families, listed_families()),
                           node->where(file));
    model.family = *family;
    return Done{};
}

Status read_precision(const YamlNode& root, std::string_view file, Model& model) {
    const YamlNode* node = root.find("precision");
    if (node == nullptr) return Done{};
    const Result<std::string> text = yaml_string(*node, file, "precision");
    if (!text) return text.error();
    const std::optional<Precision> precision = parse_precision(*text);
    if (!precision)
        return usage_error(fmt::format("precision '{}' is unknown; accepted: {}",
                                       printable(*text, 40), accepted_precisions),
                           node->where(file));
    model.precision = *precision;
    return Done{};
}

Status read_integers(const YamlNode& root, std::string_view file, Model& model) {
    for (const IntegerField& field : integer_fields()) {
        const YamlNode* node = root.find(field.key);
        const bool is_list = field.member == &Model::lora_targets ||
                             (field.member == &Model::layers && model.family == Family::custom);
        if (node == nullptr || is_list) continue;
        const auto value = yaml_integer(*node, file, field.key, field.min, field.max);
        if (!value) return value.error();
        model.*field.member = *value;
    }
    return Done{};
}

Status read_flags(const YamlNode& root, std::string_view file, Model& model) {
    set_family_flags(model);
    for (const FlagField& field : flag_fields()) {
        const YamlNode* node = root.find(field.key);
        if (node == nullptr) continue;
        if (const Status s = check_applies(field.group, field.key, model); !s)
            return usage_error(s.error().text, node->where(file));
        const Result<bool> value = yaml_bool(*node, file, field.key);
        if (!value) return value.error();
        model.*field.member = *value;
    }
    return Done{};
}

Status read_capacity(const YamlNode& root, std::string_view file, Model& model) {
    const YamlNode* node = root.find("capacity_factor");
    if (node == nullptr) return Done{};
    const Result<double> value =
        yaml_number(*node, file, "capacity_factor", 0, max_capacity_factor);
    if (!value) return value.error();
    model.capacity_factor = *value;
    return Done{};
}

Status read_targets(const YamlNode& root, std::string_view file, Model& model) {
    const YamlNode* node = root.find("lora_targets");
    if (node == nullptr) return Done{};
    if (node->kind != YamlNode::Kind::sequence)
        return usage_error("lora_targets must be a list of matrices, for example [q_proj, v_proj]",
                           node->where(file));
    std::vector<std::string> names;
    for (const YamlNode& item : node->items) {
        Result<std::string> name = yaml_string(item, file, "lora_targets");
        if (!name) return name.error();
        names.push_back(std::move(*name));
    }
    const Result<std::int64_t> targets = read_lora_targets({names.begin(), names.end()});
    if (!targets) return usage_error("lora_targets: " + targets.error().text, node->where(file));
    model.lora_targets = *targets;
    return Done{};
}

/// trainable: all, or lora, which needs a rank.
Status read_trainable(const YamlNode& root, std::string_view file, Model& model) {
    const YamlNode* node = root.find("trainable");
    if (node == nullptr) return Done{};
    const Result<std::string> text = yaml_string(*node, file, "trainable");
    if (!text) return text.error();
    if (*text == "lora" && !is_adapted(model))
        return usage_error("trainable: lora needs lora_rank, 1 or more", node->where(file));
    if (*text == "all" && is_adapted(model))
        return usage_error("trainable: all has no adapters: leave lora_rank out",
                           node->where(file));
    if (*text != "lora" && *text != "all")
        return usage_error(
            fmt::format("trainable '{}' is unknown; accepted: all, lora", printable(*text, 40)),
            node->where(file));
    return Done{};
}

Status read_blocks(const YamlNode& root, std::string_view file, Model& model) {
    const YamlNode* node = root.find("blocks");
    if (node == nullptr) return Done{};
    if (node->kind != YamlNode::Kind::sequence || node->items.size() > max_resnet_stages)
        return usage_error(fmt::format("blocks must be a list of 1 to {} integers, for example "
                                       "[3, 4, 6, 3]",
                                       max_resnet_stages),
                           node->where(file));
    for (const YamlNode& item : node->items) {
        const auto count = yaml_integer(item, file, "blocks", 1, max_resnet_blocks);
        if (!count) return count.error();
        model.blocks.push_back(*count);
    }
    return Done{};
}

constexpr std::pair<const char*, double CustomLayer::*> layer_costs[] = {
    {"forward_flops", &CustomLayer::forward_flops},
    {"parameter_bytes", &CustomLayer::parameter_bytes},
    {"activation_bytes", &CustomLayer::activation_bytes},
    {"output_bytes", &CustomLayer::output_bytes}};

Status read_operators(const YamlNode& layer, std::string_view file, CustomLayer& out) {
    const YamlNode* node = layer.find("operators");
    if (node == nullptr) return Done{};
    if (node->kind != YamlNode::Kind::sequence || node->items.size() > max_layer_operators)
        return usage_error(fmt::format("operators must be a list of at most {}, for example [gemm "
                                       "1024x3072x1024, 2 memory 4194304]",
                                       max_layer_operators),
                           node->where(file));
    for (const YamlNode& item : node->items) {
        const Result<std::string> text = yaml_string(item, file, "operators", 128);
        if (!text) return text.error();
        const Result<LayerOperator> op = parse_layer_operator(*text);
        if (!op) return usage_error(op.error().text, item.where(file));
        out.operators.push_back(*op);
    }
    return Done{};
}

Result<CustomLayer> read_custom_layer(const YamlNode& node, std::string_view file) {
    CustomLayer layer;
    if (node.kind != YamlNode::Kind::map)
        return usage_error(
            "layers: each entry is a map with forward_flops, parameter_bytes and "
            "activation_bytes",
            node.where(file));
    if (Status s = yaml_check_keys(node, file,
                                   {"name", "count", "forward_flops", "parameter_bytes",
                                    "activation_bytes", "output_bytes", "operators"});
        !s)
        return s.error();
    if (const YamlNode* name = node.find("name")) {
        const Result<std::string> text = yaml_string(*name, file, "name", 64);
        if (!text) return text.error();
        layer.name = clean_model_name(*text);
    }
    if (const YamlNode* count = node.find("count")) {
        const auto value = yaml_integer(*count, file, "count", 1, 10000);
        if (!value) return value.error();
        layer.count = *value;
    }
    for (const auto& [key, member] : layer_costs) {
        const YamlNode* cost = node.find(key);
        if (cost == nullptr && member == &CustomLayer::output_bytes) continue;
        if (cost == nullptr)
            return usage_error(fmt::format("a layer lacks {}", key), node.where(file));
        const Result<double> value = yaml_number(*cost, file, key, 0, max_layer_cost);
        if (!value) return value.error();
        layer.*member = *value;
    }
    if (Status s = read_operators(node, file, layer); !s) return s.error();
    return layer;
}

/// `layers` of family custom: a list, per sample and forward.
Status read_custom_layers(const YamlNode& root, std::string_view file, Model& model) {
    const YamlNode* node = root.find("layers");
    if (model.family != Family::custom || node == nullptr) return Done{};
    if (node->kind != YamlNode::Kind::sequence || node->items.empty())
        return usage_error(
            "layers of family custom is a list of maps with forward_flops, "
            "parameter_bytes and activation_bytes",
            node->where(file));
    for (const YamlNode& item : node->items) {
        Result<CustomLayer> layer = read_custom_layer(item, file);
        if (!layer) return layer.error();
        model.custom_layers.push_back(std::move(*layer));
    }
    return Done{};
}

Status read_name(const YamlNode& root, std::string_view file, Model& model) {
    std::string_view stem = file.substr(file.rfind('/') + 1);
    model.name = clean_model_name(stem.substr(0, stem.rfind('.')));
    const YamlNode* node = root.find("name");
    if (node == nullptr) return Done{};
    const Result<std::string> text = yaml_string(*node, file, "name", 64);
    if (!text) return text.error();
    model.name = clean_model_name(*text);
    return Done{};
}

bool looks_like_json(std::string_view text) {
    const std::string_view start = trim(text.substr(0, std::min<std::size_t>(text.size(), 4096)));
    return !start.empty() && start.front() == '{';
}

}  // namespace

Result<Model> parse_yaml_model(std::string_view text, std::string_view name,
                               IgnoredWords& ignored) {
    const Result<YamlNode> root = parse_yaml(text, name);
    if (!root) return root.error();
    if (root->kind != YamlNode::Kind::map)
        return usage_error(
            "a model file is a Hugging Face config.json, a flat YAML map with family, "
            "layers, hidden, heads, vocab, seq_length, or Megatron's arguments (--num-layers ...)",
            std::string(name));
    if (const YamlNode* family = root->find("family"))
        if (is_listed_family(family->scalar)) return read_listed_family(*root, name, ignored);
    Model model;
    if (Status s = read_family(*root, name, model); !s) return s.error();
    if (Status s = read_ignored(*root, name, ignored); !s) return s.error();
    std::vector<std::string_view> known = known_keys();
    for (const auto& [key, node] : root->members)
        if (std::find(known.begin(), known.end(), key) == known.end() && ignored.take(key))
            known.push_back(key);
    if (Status s = yaml_check_keys(*root, name, known); !s) return s.error();
    for (Status (*read)(const YamlNode&, std::string_view, Model&) :
         {read_name, read_integers, read_targets, read_trainable, read_precision, read_flags,
          read_capacity, read_blocks, read_custom_layers})
        if (Status s = read(*root, name, model); !s) return s.error();
    return complete_model(std::move(model), name);
}

Result<Model> parse_model(std::string_view text, std::string_view name, IgnoredWords& ignored,
                          const ReadBase& read_base) {
    if (text.size() > max_model_bytes)
        return usage_error(fmt::format("the model file has {} bytes; at most {} are accepted",
                                       text.size(), max_model_bytes),
                           std::string(name));
    if (looks_like_json(text))
        return looks_like_peft(text) ? parse_peft_config(text, name, ignored, read_base)
                                     : parse_hf_config(text, name, ignored);
    return looks_like_megatron(text) ? parse_megatron_args(text, name, ignored)
                                     : parse_yaml_model(text, name, ignored);
}

Result<Model> parse_model(std::string_view text, std::string_view name, const ReadBase& read_base) {
    IgnoredWords none;
    return parse_model(text, name, none, read_base);
}

}  // namespace arena
