// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/model_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "core/limits.h"

namespace arena {
namespace {

constexpr std::int64_t max_width = 4194304, max_tokens = limits::tokens;

using enum FieldGroup;
constexpr std::array<IntegerField, 33> integers{{
    {"layers", &Model::layers, 1, 10000, transformer},
    {"hidden", &Model::hidden, 1, 262144, transformer},
    {"heads", &Model::heads, 1, 4096, transformer},
    {"kv_heads", &Model::kv_heads, 1, 4096, transformer},
    {"ffn_hidden", &Model::ffn_hidden, 1, max_width, transformer},
    {"vocab", &Model::vocab, 2, 16777216, transformer},
    {"seq_length", &Model::seq_length, 1, max_tokens, transformer},
    {"head_dim", &Model::head_dim, 1, 65536, attention},
    {"window", &Model::window, 0, max_tokens, attention},
    {"full_attention_every", &Model::full_attention_every, 0, 10000, attention},
    {"positions", &Model::positions, 0, max_tokens, attention},
    {"mtp_layers", &Model::mtp_layers, 0, 64, attention},
    {"experts", &Model::experts, 1, 65536, moe},
    {"top_k", &Model::top_k, 1, 65536, moe},
    {"moe_ffn_hidden", &Model::moe_ffn_hidden, 1, max_width, moe},
    {"shared_ffn_hidden", &Model::shared_ffn_hidden, 0, max_width, moe},
    {"dense_layers", &Model::dense_layers, 0, 10000, moe},
    {"moe_every", &Model::moe_every, 0, 10000, moe},
    {"moe_group_size", &Model::moe_group_size, 0, max_tokens, moe},
    {"kv_lora_rank", &Model::kv_lora_rank, 0, 262144, latent},
    {"q_lora_rank", &Model::q_lora_rank, 0, 262144, latent},
    {"qk_nope_head_dim", &Model::qk_nope_head_dim, 0, 65536, latent},
    {"qk_rope_head_dim", &Model::qk_rope_head_dim, 0, 65536, latent},
    {"v_head_dim", &Model::v_head_dim, 0, 65536, latent},
    {"lora_rank", &Model::lora_rank, 0, 65536, adapter},
    {"lora_mlp", &Model::lora_mlp, 0, 1, adapter},
    {"lora_targets", &Model::lora_targets, 0, lora_target::all, adapter},
    {"base_bits", &Model::base_bits, 0, 16, adapter},
    {"depth", &Model::depth, 1, 10000, resnet},
    {"width_factor", &Model::width_factor, 1, 1024, resnet},
    {"base_channels", &Model::base_channels, 1, 65536, resnet},
    {"image_size", &Model::image_size, 1, 65536, resnet},
    {"classes", &Model::classes, 2, 16777216, resnet},
}};

constexpr std::array<FlagField, 8> flags{{
    {"tied_embedding", &Model::tied_embedding, transformer},
    {"gated_mlp", &Model::gated_mlp, transformer},
    {"learned_positions", &Model::learned_positions, transformer},
    {"linear_bias", &Model::linear_bias, transformer},
    {"qkv_bias", &Model::qkv_bias, transformer},
    {"rms_norm", &Model::rms_norm, transformer},
    {"qk_norm", &Model::qk_norm, transformer},
    {"widen_first", &Model::widen_first, resnet},
}};

constexpr std::size_t max_ignored = 64, max_word = 128;

bool is_word(std::string_view word) {
    return !word.empty() && word.size() <= max_word &&
           std::all_of(word.begin(), word.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.';
           });
}

/// As people list an option: with or without its dashes.
std::string_view undashed(std::string_view word) {
    return word.starts_with("--") ? word.substr(2) : word;
}

}  // namespace

std::span<const IntegerField> integer_fields() { return integers; }
std::span<const FlagField> flag_fields() { return flags; }

const IntegerField* find_integer_field(std::string_view key) {
    for (const IntegerField& field : integers)
        if (field.key == key) return &field;
    return nullptr;
}

std::string inline_spelling(std::string_view key) {
    std::string text(key);
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
}

const std::vector<std::string_view>& inline_model_keys() {
    static const std::vector<std::string> spelled = [] {
        std::vector<std::string> keys{"family", "name", "precision", "capacity-factor"};
        for (const IntegerField& field : integers) keys.push_back(inline_spelling(field.key));
        for (const FlagField& field : flags) keys.push_back(inline_spelling(field.key));
        return keys;
    }();
    static const std::vector<std::string_view> keys(spelled.begin(), spelled.end());
    return keys;
}

namespace {

constexpr std::pair<std::string_view, std::int64_t> targets_table[] = {
    {"q_proj", lora_target::q_proj},      {"k_proj", lora_target::k_proj},
    {"v_proj", lora_target::v_proj},      {"qkv_proj", lora_target::qkv_proj},
    {"o_proj", lora_target::o_proj},      {"gate_proj", lora_target::gate_proj},
    {"up_proj", lora_target::up_proj},    {"gate_up_proj", lora_target::gate_up_proj},
    {"down_proj", lora_target::down_proj}};

}  // namespace

Result<std::int64_t> read_lora_targets(const std::vector<std::string_view>& names) {
    std::int64_t targets = 0;
    for (const std::string_view name : names) {
        const auto* const known = std::find_if(std::begin(targets_table), std::end(targets_table),
                                               [&](const auto& t) { return t.first == name; });
        if (known == std::end(targets_table))
            return usage_error(fmt::format("'{}' is not one of {}", printable(name, 40),
                                           lora_target_names(lora_target::all, ", ")));
        if ((targets & known->second) != 0)
            return usage_error(fmt::format("'{}' is there twice", name));
        targets |= known->second;
    }
    if (targets == 0) return usage_error("names no matrix");
    return targets;
}

std::string lora_target_names(std::int64_t targets, std::string_view separator) {
    std::string names;
    for (const auto& [name, bit] : targets_table)
        if ((targets & bit) != 0)
            names += fmt::format("{}{}", names.empty() ? "" : separator, name);
    return names;
}

void set_family_flags(Model& model) {
    const bool modern = model.family == Family::llama || model.family == Family::moe;
    model.tied_embedding = model.learned_positions = model.linear_bias = !modern;
    model.gated_mlp = model.rms_norm = modern;
    model.qkv_bias = model.qk_norm = false;
    model.widen_first = true;
}

std::string fingerprint(const Model& m) {
    std::string facts = fmt::format("2|{}|{}", to_string(m.family), to_string(m.precision));
    for (const FlagField& field : flags) facts += m.*field.member ? "|1" : "|0";
    for (const IntegerField& field : integers)
        if (m.*field.member != 0) facts += fmt::format("|{}={}", field.key, m.*field.member);
    if (m.capacity_factor != 0) facts += fmt::format("|capacity={:a}", m.capacity_factor);
    if (!m.blocks.empty()) facts += fmt::format("|blocks={}", fmt::join(m.blocks, ","));
    for (const CustomLayer& layer : m.custom_layers) {
        facts += fmt::format("|{}x{:a},{:a},{:a},{:a}", layer.count, layer.forward_flops,
                             layer.parameter_bytes, layer.activation_bytes, layer.output_bytes);
        for (const LayerOperator& op : layer.operators) facts += "," + to_string(op);
    }
    return sha256_hex(facts);
}

bool IgnoredWords::take(std::string_view word) {
    const auto is_it = [&](const std::string& w) { return undashed(w) == undashed(word); };
    if (std::none_of(asked_.begin(), asked_.end(), is_it)) return false;
    if (std::none_of(taken_.begin(), taken_.end(), is_it)) taken_.emplace_back(word);
    return true;
}

std::vector<std::string> IgnoredWords::idle() const {
    std::vector<std::string> idle;
    for (const std::string& asked : asked_)
        if (std::none_of(taken_.begin(), taken_.end(),
                         [&](const std::string& t) { return undashed(t) == undashed(asked); }))
            idle.push_back(asked);
    return idle;
}

Result<std::vector<std::string>> read_ignored_words(std::string_view list) {
    std::vector<std::string> words;
    for (const std::string_view word : split(list, ',')) {
        if (!is_word(word))
            return usage_error(
                fmt::format("'{}' is not a list of options or keys such as --some-option,some_key",
                            printable(list, 60)));
        words.emplace_back(word);
    }
    if (words.size() > max_ignored)
        return usage_error(
            fmt::format("{} words are listed; at most {} are accepted", words.size(), max_ignored));
    return words;
}

}  // namespace arena
