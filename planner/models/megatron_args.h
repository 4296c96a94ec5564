// SPDX-License-Identifier: GPL-2.0-or-later
// Megatron-LM's arguments, as users paste them from scripts, as a model.
#pragma once

#include <string_view>

#include "base/result.h"
#include "core/model.h"
#include "core/model_fields.h"

namespace arena {

/// Whether the text has --num-layers or --hidden-size as a word of its own.
bool looks_like_megatron(std::string_view text);

/// The model that Megatron-LM, Megatron-DeepSpeed, a fork of BigScience or BigCode, or MindSpeed
/// builds from these arguments (pretrain_gpt.py, pretrain_bert.py). Words are split at blanks;
/// quotes, brackets of shell arrays, `\` at line ends and # comments fall away; words before the
/// first option are ignored. What each option does is megatron.table: one that is unknown, or
/// changes the cost in a way that is not priced, is refused, unless it is to be ignored, and so are
/// values behind shell variables. Defaults are the framework's; --vocab-size or
/// --padded-vocab-size is needed (Megatron asks the tokenizer) unless --tokenizer-type names
/// GPT-2's.
Result<Model> parse_megatron_args(std::string_view text, std::string_view name, IgnoredWords&);

}  // namespace arena
