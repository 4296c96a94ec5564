// SPDX-License-Identifier: GPL-2.0-or-later
// Our flat model YAML -> Model, and the choice between the two file formats.
#include <fmt/format.h>

#include <vector>

#include "core/text.h"
#include "core/yaml.h"
#include "planner/hf_config.h"
#include "planner/model.h"
#include "planner/planner.h"

namespace arena {

namespace {

std::vector<std::string_view> known_keys() {
    std::vector<std::string_view> keys{"name", "family", "precision"};
    for (const FlagField& field : flag_fields()) keys.push_back(field.key);
    for (const IntegerField& field : integer_fields()) keys.push_back(field.key);
    return keys;
}

Status read_family(const YamlNode& root, std::string_view file, Model& model) {
    const YamlNode* node = root.find("family");
    if (node == nullptr)
        return usage_error(
            fmt::format("the key family is missing; accepted: {}", supported_families()),
            std::string(file));
    const Result<std::string> text = yaml_string(*node, file, "family");
    if (!text) return text.error();
    const std::optional<Family> family = parse_family(*text);
    if (!family)
        return usage_error(fmt::format("family '{}' is unknown; accepted: {}", printable(*text, 40),
                                       supported_families()),
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
        if (node == nullptr) continue;
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
        const Result<bool> value = yaml_bool(*node, file, field.key);
        if (!value) return value.error();
        model.*field.member = *value;
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

Result<Model> parse_yaml_model(std::string_view text, std::string_view name) {
    const Result<YamlNode> root = parse_yaml(text, name, {.bytes = max_model_bytes});
    if (!root) return root.error();
    if (root->kind != YamlNode::Kind::map)
        return usage_error(
            "a model file is a Hugging Face config.json or a flat YAML map with family, "
            "layers, hidden, heads, vocab, seq_length",
            std::string(name));
    Model model;
    if (Status s = read_family(*root, name, model); !s) return s.error();
    if (Status s = yaml_check_keys(*root, name, known_keys()); !s) return s.error();
    if (Status s = read_name(*root, name, model); !s) return s.error();
    if (Status s = read_integers(*root, name, model); !s) return s.error();
    if (Status s = read_precision(*root, name, model); !s) return s.error();
    if (Status s = read_flags(*root, name, model); !s) return s.error();
    return complete_model(std::move(model), name);
}

Result<Model> parse_model(std::string_view text, std::string_view name) {
    if (text.size() > max_model_bytes)
        return usage_error(fmt::format("the model file has {} bytes; at most {} are accepted",
                                       text.size(), max_model_bytes),
                           std::string(name));
    return looks_like_json(text) ? parse_hf_config(text, name) : parse_yaml_model(text, name);
}

}  // namespace arena
