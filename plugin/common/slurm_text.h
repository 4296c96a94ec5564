// SPDX-License-Identifier: GPL-2.0-or-later
// Slurm's C strings and NAME=value arrays, as every Slurm-facing file reads and writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

extern "C" {
#include "src/common/xmalloc.h"
#include "src/common/xstring.h"
}

namespace arena {

inline std::string text_of(const char* text) { return text != nullptr ? text : ""; }

/// What follows "NAME=" in an entry of that name.
inline std::optional<std::string_view> value_of(const char* entry, std::string_view name) {
    const std::string_view text = entry != nullptr ? entry : "";
    if (text.size() <= name.size() || text[name.size()] != '=' || !text.starts_with(name)) return {};
    return text.substr(name.size() + 1);
}

/// Value of NAME in a NAME=value array, or nullptr.
inline const char* find_variable(char* const* array, std::uint32_t count, std::string_view name) {
    for (std::uint32_t i = 0; array != nullptr && i < count; ++i)
        if (const auto value = value_of(array[i], name)) return value->data();
    return nullptr;
}

/// Sets *field to text (nullptr for an empty one) unless equal; true if changed.
inline bool assign_text(char** field, const std::string& text) {
    if (*field != nullptr && text == *field) return false;
    xfree(*field);
    *field = text.empty() ? nullptr : xstrdup(text.c_str());
    return true;
}

}  // namespace arena
