// SPDX-License-Identifier: GPL-2.0-or-later
// See moment.h.
#include "cli/common/moment.h"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <optional>
#include <utility>

#include "base/text.h"

namespace arena::cli {
namespace {

constexpr std::int64_t day_s = 86400, farthest_s = 3653 * day_s;
constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> units{
    {{"second", 1}, {"minute", 60}, {"hour", 3600}, {"day", day_s}, {"week", 7 * day_s}}};

/// Digits alone: no sign, no blank.
std::optional<int> read_number(std::string_view digits, int min, int max) {
    if (digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    const auto number = parse_integer(digits, min, max);
    return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

/// "HH:MM[:SS]" into the fields of `at`.
bool read_clock(std::string_view text, std::tm& at) {
    const auto parts = split(text, ':');
    if (parts.size() < 2 || parts.size() > 3) return false;
    const auto hour = read_number(parts[0], 0, 23), minute = read_number(parts[1], 0, 59),
               second = parts.size() == 3 ? read_number(parts[2], 0, 59) : 0;
    if (!hour || !minute || !second) return false;
    at.tm_hour = *hour, at.tm_min = *minute, at.tm_sec = *second;
    return true;
}

/// "YYYY-MM-DD" into the fields of `at`.
bool read_day(std::string_view text, std::tm& at) {
    const auto parts = split(text, '-');
    if (parts.size() != 3 || parts[0].size() != 4) return false;
    const auto year = read_number(parts[0], 1970, 9999), month = read_number(parts[1], 1, 12),
               day = read_number(parts[2], 1, 31);
    if (!year || !month || !day) return false;
    at.tm_year = *year - 1900, at.tm_mon = *month - 1, at.tm_mday = *day;
    return true;
}

/// In the local time zone; nothing of the 31st of a month that has 30 days.
std::optional<std::int64_t> epoch_of(std::tm at) {
    const int day = at.tm_mday;
    at.tm_isdst = -1;
    const std::time_t time = std::mktime(&at);
    if (time == -1 || at.tm_mday != day) return std::nullopt;
    return time;
}

std::optional<std::int64_t> read_delay(std::string_view text) {
    const std::size_t end = text.find_first_not_of("0123456789");
    const auto count = parse_integer(text.substr(0, end), 1, farthest_s);
    if (!count) return std::nullopt;
    if (end == std::string_view::npos) return *count;
    for (const auto& [unit, seconds] : units)
        if (const auto word = text.substr(end); word == unit || word == std::string(unit) + "s")
            return *count * seconds;
    return std::nullopt;
}

/// The next one, today or tomorrow.
std::optional<std::int64_t> next_clock(std::string_view text, std::tm today, std::int64_t now_s) {
    if (!read_clock(text, today)) return std::nullopt;
    today.tm_isdst = -1;
    std::tm tomorrow = today;
    ++tomorrow.tm_mday;
    const std::time_t at = std::mktime(&today);
    return at > now_s ? at : std::mktime(&tomorrow);
}

std::optional<std::int64_t> read_moment(std::string_view text, std::int64_t now_s) {
    if (text.starts_with("now+")) {
        const auto delay = read_delay(text.substr(4));
        return delay ? std::optional(now_s + *delay) : std::nullopt;
    }
    const std::time_t now = now_s;
    std::tm at{};
    ::localtime_r(&now, &at);
    const std::size_t middle = text.find('T');
    if (middle == std::string_view::npos && text.find('-') == std::string_view::npos)
        return next_clock(text, at, now_s);
    at.tm_hour = at.tm_min = at.tm_sec = 0;
    if (!read_day(text.substr(0, middle), at)) return std::nullopt;
    if (middle != std::string_view::npos && !read_clock(text.substr(middle + 1), at))
        return std::nullopt;
    return epoch_of(at);
}

}  // namespace

Result<std::int64_t> parse_moment(std::string_view text, std::int64_t now_s) {
    const auto moment = read_moment(text, now_s);
    if (!moment)
        return usage_error(
            fmt::format("\"{}\" is no time; give HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]] or "
                        "now+COUNT[seconds|minutes|hours|days|weeks]",
                        printable(text)));
    if (*moment <= now_s) return usage_error(fmt::format("\"{}\" is over", printable(text)));
    if (*moment - now_s > farthest_s)
        return usage_error(fmt::format("\"{}\" is more than ten years away", printable(text)));
    return *moment;
}

}  // namespace arena::cli
