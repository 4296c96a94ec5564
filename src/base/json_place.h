// SPDX-License-Identifier: GPL-2.0-or-later
// Where a JSON text is wrong, in lines and columns, as messages about YAML have it: the parser's
// own values do not remember their place.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace arena {

/// Of a byte of a text, both from 1; a byte beyond the end has the place after the last one.
struct TextPlace {
    std::size_t line = 1, column = 1;
};
TextPlace place_in(std::string_view text, std::size_t byte);

/// Where a text stops being JSON, and what was expected there, for people. Of a text that is JSON:
/// its beginning. The caller has seen to its depth: see nests_deeper().
struct JsonFault {
    TextPlace place;
    std::string what;
};
JsonFault find_json_fault(std::string_view text);

/// The byte at which the last member of this name begins, in the object at the end of `path` ({"a",
/// "b"}: the member b of the member a). Of a text that is JSON; O(size). Keys with escapes are not
/// found.
std::optional<std::size_t> find_json_key(std::string_view text,
                                         const std::vector<std::string_view>& path);

}  // namespace arena
