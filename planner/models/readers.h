// SPDX-License-Identifier: GPL-2.0-or-later
// Models from text and by name.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/yaml.h"
#include "core/model.h"
#include "core/model_fields.h"

namespace arena {

/// A config.json that names a thousand classes twice has 70 KB.
inline constexpr std::size_t max_model_bytes = 128 * 1024;

/// What a file holds that a model's text names: nothing where there is no such file; an error where
/// it cannot be read.
using ReadBase = std::function<Result<std::optional<std::string>>(const std::string& path)>;

/// `text` is a Hugging Face config.json, PEFT's adapter_config.json, Megatron-LM's arguments or our
/// YAML (arena-model(5)), at most 128 KiB, YAML 64 KiB. The base of an adapter_config.json is a
/// file only where it can be read: else a name alone. A model_type, a family, a key or an option
/// that is unknown or cannot be priced is refused with its place and what is accepted, unless it is
/// to be ignored.
Result<Model> parse_model(std::string_view text, std::string_view name, IgnoredWords&,
                          const ReadBase& = {});
Result<Model> parse_model(std::string_view text, std::string_view name, const ReadBase& = {});
/// Its kinds: a config.json of one of the types of hf_types.h.
Result<Model> parse_hf_config(std::string_view text, std::string_view name, IgnoredWords&);
/// PEFT's adapter_config.json: the base model with its adapters. Errors: a kind of adapter other
/// than LoRA, a key of peft.table that is not priced, modules that the base's type has not or that
/// are not priced, a base that is not found.
Result<Model> parse_peft_config(std::string_view text, std::string_view name, IgnoredWords&,
                                const ReadBase&);
/// Whether a text is the JSON of one: it has a peft_type. O(size).
bool looks_like_peft(std::string_view text);
/// A family whose YAML has the keys of that model_type's config.json: t5, mamba2, unet, ...
bool is_listed_family(std::string_view family);
std::string listed_families();
/// Such a YAML map, which has a family; the errors name the file alone.
Result<Model> read_listed_family(const YamlNode& root, std::string_view file, IgnoredWords&);
/// Our flat YAML. Unknown keys are refused; `arena.ignore` lists some that are not.
Result<Model> parse_yaml_model(std::string_view text, std::string_view name, IgnoredWords&);

/// Built-in models by name; ErrorCode::usage with the nearest names when unknown.
Result<Model> find_zoo_model(std::string_view name);
std::vector<std::string> zoo_names();
/// "llama-2-7b" of the published name "meta-llama/Llama-2-7b-chat-hf", or of itself; "" = unknown,
/// or of no transformer that is published.
std::string_view zoo_name_of(std::string_view published);

}  // namespace arena
