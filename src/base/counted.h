// SPDX-License-Identifier: GPL-2.0-or-later
// A number of things in words to people: one is not "1 nodes".
#pragma once

#include <string>
#include <string_view>

namespace arena {

/// "1 node", "0 nodes", "2 nodes": nouns whose plural ends in s.
template <typename Number>
std::string counted(Number n, std::string_view noun) {
    return std::to_string(n).append(" ").append(noun).append(n == 1 ? "" : "s");
}

}  // namespace arena
