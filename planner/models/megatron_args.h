// SPDX-License-Identifier: GPL-2.0-or-later
// Megatron-LM's arguments, as users paste them from scripts, as a model.
#pragma once

#include <string_view>

#include "base/result.h"
#include "core/model.h"

namespace arena {

/// Whether the text has --num-layers or --hidden-size as a word of its own.
bool looks_like_megatron(std::string_view text);

/// The model that Megatron-LM (pretrain_gpt.py, pretrain_bert.py) builds from these arguments.
/// Words are split at blanks; quotes, brackets of shell arrays, `\` at line ends and # comments
/// fall away; words before the first option are ignored. Options of training, data and parallelism
/// are ignored; options of the architecture that Model cannot hold, values behind shell variables,
/// and options that look like a misspelt one of ours are refused. Defaults are Megatron's;
/// --vocab-size is needed (Megatron asks the tokenizer) unless --tokenizer-type names GPT-2's.
/// Multi-token-prediction layers (--mtp-num-layers) are left out.
Result<Model> parse_megatron_args(std::string_view text, std::string_view name);

}  // namespace arena
