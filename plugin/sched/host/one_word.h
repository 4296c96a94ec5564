// SPDX-License-Identifier: GPL-2.0-or-later
// A name that a user chose, as one word of a line for people and programs: it forges no second
// word, no key=value, no line.
#pragma once

#include <string>
#include <string_view>

namespace arena {

/// Letters, digits and "._+/:-", all else as '_', cut to 40 bytes.
inline std::string one_word(std::string_view name) {
    constexpr std::size_t max = 40;
    std::string out(name.substr(0, max));
    for (char& c : out) {
        const bool alnum =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && std::string_view("._+/:-").find(c) == std::string_view::npos) c = '_';
    }
    return out;
}

}  // namespace arena
