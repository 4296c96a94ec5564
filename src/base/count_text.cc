// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/count_text.h"

#include <fmt/format.h>

#include <cstddef>
#include <ctime>
#include <utility>

namespace arena {

std::string count_text(double n) {
    constexpr std::pair<double, const char*> units[] = {
        {1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " k"}};
    for (const auto& [unit, name] : units)
        if (n >= 0.9995 * unit) return fmt::format("{:.3g}{}", n / unit, name);
    return fmt::format("{:.3g}", n);
}

std::string utc_time(double epoch_s) {
    const auto seconds = static_cast<std::time_t>(epoch_s);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    return text;
}

std::string grouped(std::int64_t n) {
    std::string digits = std::to_string(n);
    for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
        digits.insert(static_cast<std::size_t>(at), 1, ',');
    return digits;
}

}  // namespace arena
