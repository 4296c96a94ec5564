// SPDX-License-Identifier: GPL-2.0-or-later
// Models from text and by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/model.h"

namespace arena {

/// Model readers. `text` is a Hugging Face config.json or our YAML (arena-model(5)), at
/// most 64 KiB. Unknown model_type/family is refused with what is accepted.
Result<Model> parse_model(std::string_view text, std::string_view name);
/// Built-in models by name; ErrorCode::usage with the nearest names when unknown.
Result<Model> find_zoo_model(std::string_view name);
std::vector<std::string> zoo_names();

}  // namespace arena
