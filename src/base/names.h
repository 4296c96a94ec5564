// SPDX-License-Identifier: GPL-2.0-or-later
// Enumerations as words: one table of names per enumeration, read both ways.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace arena {

template <typename E>
struct Name {
    E value;
    std::string_view name;
};

/// "?" for a value that is not in the table.
template <typename E, std::size_t N>
std::string_view name_of(const std::array<Name<E>, N>& names, E value) {
    for (const auto& entry : names) {
        if (entry.value == value) return entry.name;
    }
    return "?";
}

template <typename E, std::size_t N>
std::optional<E> value_of(const std::array<Name<E>, N>& names, std::string_view name) {
    for (const auto& entry : names) {
        if (entry.name == name) return entry.value;
    }
    return std::nullopt;
}

}  // namespace arena
