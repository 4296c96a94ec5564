// SPDX-License-Identifier: GPL-2.0-or-later
// Slurm's C strings and NAME=value arrays, as every Slurm-facing file reads and writes them.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "plugin/common/slurm_compat.h"

namespace arena {

inline std::string text_of(const char* text) { return text != nullptr ? text : ""; }

/// What follows "NAME=" in an entry of that name, or nullptr. Does not look at the rest, which may
/// be long: it is asked for every job of the queue.
inline const char* after_name(const char* entry, std::string_view name) {
    if (entry == nullptr || std::strncmp(entry, name.data(), name.size()) != 0) return nullptr;
    return entry[name.size()] == '=' ? entry + name.size() + 1 : nullptr;
}

inline std::optional<std::string_view> value_of(const char* entry, std::string_view name) {
    const char* value = after_name(entry, name);
    return value != nullptr ? std::optional<std::string_view>(value) : std::nullopt;
}

/// Value of NAME in a NAME=value array, or nullptr.
inline const char* find_variable(char* const* array, std::uint32_t count, std::string_view name) {
    for (std::uint32_t i = 0; array != nullptr && i < count; ++i)
        if (const char* value = after_name(array[i], name)) return value;
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
