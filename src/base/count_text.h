// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers of things in words to people: parameters of a model, that one is not "1 nodes", times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace arena {

/// Three digits: "8.03 B", "124 M".
std::string count_text(double n);

/// Epoch seconds as "2026-01-31 12:00:00" in UTC.
std::string utc_time(double epoch_s);

/// "12,000"
std::string grouped(std::int64_t n);

/// "1 node", "0 nodes", "2 nodes": nouns whose plural ends in s.
template <typename Number>
std::string counted(Number n, std::string_view noun) {
    return std::to_string(n).append(" ").append(noun).append(n == 1 ? "" : "s");
}

}  // namespace arena
