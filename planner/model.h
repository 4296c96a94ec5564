// SPDX-License-Identifier: GPL-2.0-or-later
// Facts about a model that every reader and every cost formula needs: ranges of its fields, family
// defaults, parameters and FLOPs. The readers (Hugging Face, YAML, zoo, inline keys) fill a
// ModelFacts and end in complete_model(); nobody else fills defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/result.h"
#include "core/values.h"

namespace arena {

/// An integer field of Model as people write it in YAML (inline keys use '-' for '_').
struct IntegerField {
    std::string_view key;
    std::int64_t Model::*member;
    std::int64_t min, max;
};
std::span<const IntegerField> integer_fields();
const IntegerField* find_integer_field(std::string_view key);

/// What a reader found. Flags that the text did not give are filled by the family.
struct ModelFacts {
    Model model;
    std::optional<bool> tied_embedding, gated_mlp, learned_positions;
};

/// Fills family defaults (kv_heads = heads; gpt and bert: ffn_hidden = 4 hidden), names every
/// missing field, then check_model(). `where` is the place of messages; inline = spell keys with
/// '-'.
Result<Model> complete_model(const ModelFacts&, std::string_view where, bool is_inline = false);

/// Families that this version prices, for messages: "gpt, llama, bert".
std::string_view supported_families();
/// The five precisions, for messages.
inline constexpr std::string_view accepted_precisions = "fp32, tf32, fp16, bf16, fp8";

/// A name that logs, squeue and file names can carry: [A-Za-z0-9._+/-], at most 64 bytes, other
/// bytes replaced by '-'.
std::string clean_model_name(std::string_view);

bool is_gated(const Model&);
/// Columns of the fused query-key-value projection: hidden + 2 * kv_heads * head_dim.
double qkv_width(const Model&);

/// Trainable parameters: matrices, biases (gpt, bert), norms, positions, embedding, untied head;
/// bert also token types and the transform of its language-model head. Unpadded vocabulary.
double parameter_count(const Model&);
/// Parameters of one transformer block.
double layer_parameters(const Model&);
/// Forward FLOPs of one sample: GEMMs 2mnk, attention 4 s^2 h per layer without causal halving,
/// logits. Three times this is the model FLOPs of the 72 B s L h^2 formula (planner.md section 1).
double forward_flops(const Model&);

}  // namespace arena
