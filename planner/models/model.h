// SPDX-License-Identifier: GPL-2.0-or-later
// Facts about a model that every reader and every cost formula needs: family defaults, checks,
// parameters and FLOPs (names and ranges of the fields: core/model_fields.h). The readers (Hugging
// Face, YAML, zoo, inline keys) end in complete_model(); nobody else fills defaults.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/model.h"
#include "core/model_fields.h"

namespace arena {

struct LayerList;

/// What every reader ends in: fills what the text left out (kv_heads = heads; gpt and bert:
/// ffn_hidden = 4 hidden; wide_resnet: blocks of the depth, width_factor 1, 1000 classes; layers of
/// wide_resnet and custom), names every missing field, then check_model(). One model has one form:
/// what says nothing (a head_dim of hidden / heads, a depth beside its blocks) becomes 0. Flags are
/// the reader's: set_family_flags() first, then what the text says. `where` is the place of
/// messages; inline = spell keys with '-'.
Result<Model> complete_model(Model, std::string_view where, bool is_inline = false);

/// FLOPs or bytes of one custom layer, at most.
inline constexpr double max_layer_cost = 1e21;
/// Ranges, divisibility (heads, kv_heads, hidden); every reader ends here.
Status check_model(const Model&);

/// An error when facts of this group say nothing about the model's family. For readers of flags:
/// what is false may still have been given.
Status check_applies(FieldGroup, std::string_view key, const Model&);

/// A name that logs, squeue and file names can carry: [A-Za-z0-9._+/-], at most 64 bytes, other
/// bytes replaced by '-'.
std::string clean_model_name(std::string_view);

/// "LoRA of rank 16 on attention and MLPs, weights of 4 bits", for people; "" where all weights are
/// trained.
std::string adapter_words(const Model&);

bool is_gated(const Model&);
/// Everything but wide_resnet and custom.
bool is_transformer(Family);
/// Rows of the table of learned positions; 0 without one.
std::int64_t position_rows(const Model&);
/// Columns of the fused query-key-value projection: head_dim * (heads + 2 * kv_heads).
double qkv_width(const Model&);

/// Trainable parameters: layers (layers.h), positions, embedding, final norm, untied head; bert
/// also token types and the transform of its language-model head. Unpadded vocabulary. wide_resnet:
/// stem and classifier. Not counted: attention sinks and routing bias (gpt_oss, deepseek_v3; < 0.01
/// %).
double parameter_count(const Model&);
/// Those that one token uses: of experts only top_k per MoE layer.
double active_parameter_count(const Model&);
/// Forward FLOPs of one sample: GEMMs 2mnk, attention 4 s^2 h per layer without causal halving,
/// logits. Three times this is the model FLOPs of Narayanan et al. 2021,
/// 72 B s L h^2 (1 + s / (6 h) + V / (12 L h)). `head_tokens`, in [0, 1]: the share of tokens that
/// reach the output head, where a framework predicts only the masked ones.
double forward_flops(const Model&, double head_tokens = 1);
/// The same of a model whose layer_list() is at hand.
double forward_flops(const Model&, const LayerList&, double head_tokens);

}  // namespace arena
