// SPDX-License-Identifier: GPL-2.0-or-later
// Readers of model files; parse_model() chooses between them and megatron_args.h.
#pragma once

#include <string_view>

#include "base/result.h"
#include "core/model.h"

namespace arena {

inline constexpr std::size_t max_model_bytes = 64 * 1024;

/// A Hugging Face config.json of model_type gpt2, gpt_neox, llama, mistral, qwen2, qwen3, bert,
/// mixtral, qwen3_moe, gpt_oss or deepseek_v3. Unknown keys are ignored; keys that change the
/// architecture in a way Model cannot hold (cross attention, odd window patterns) are refused.
Result<Model> parse_hf_config(std::string_view text, std::string_view name);
/// Our flat YAML (arena-model(5)). Unknown keys are refused.
Result<Model> parse_yaml_model(std::string_view text, std::string_view name);

}  // namespace arena
