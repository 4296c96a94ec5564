// SPDX-License-Identifier: GPL-2.0-or-later
// Models from text and by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/model.h"
#include "core/model_fields.h"

namespace arena {

/// A config.json that names a thousand classes twice has 70 KB.
inline constexpr std::size_t max_model_bytes = 128 * 1024;

/// `text` is a Hugging Face config.json, Megatron-LM's arguments or our YAML (arena-model(5)), at
/// most 128 KiB, YAML 64 KiB. A model_type, a family, a key or an option that is unknown or cannot
/// be priced is refused with its place and what is accepted, unless it is to be ignored.
Result<Model> parse_model(std::string_view text, std::string_view name, IgnoredWords&);
Result<Model> parse_model(std::string_view text, std::string_view name);
/// Its kinds: a config.json of one of the types of hf_types.h.
Result<Model> parse_hf_config(std::string_view text, std::string_view name, IgnoredWords&);
/// Our flat YAML. Unknown keys are refused; `arena.ignore` lists some that are not.
Result<Model> parse_yaml_model(std::string_view text, std::string_view name, IgnoredWords&);

/// Built-in models by name; ErrorCode::usage with the nearest names when unknown.
Result<Model> find_zoo_model(std::string_view name);
std::vector<std::string> zoo_names();

}  // namespace arena
