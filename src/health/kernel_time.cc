// SPDX-License-Identifier: GPL-2.0-or-later
// When the kernel said something: dmesg's seconds since boot, dmesg -T, journalctl -k with short
// and ISO times, syslog's files.
#include <array>
#include <cmath>
#include <ctime>
#include <optional>

#include "base/text.h"
#include "health/reader.h"

namespace arena::health {
namespace {

constexpr std::int64_t day_s = 86400;
constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    for (const std::string_view word : split(text, ' '))
        if (!word.empty()) words.push_back(word);
    return words;
}

std::optional<int> number(std::string_view text, int min, int max) {
    const auto value = parse_integer(text, min, max);
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

/// "03:30:09", also with a fraction.
bool read_clock(std::string_view text, std::tm& out) {
    const auto parts = split(text.substr(0, text.find('.')), ':');
    if (parts.size() != 3) return false;
    const auto hour = number(parts[0], 0, 23), minute = number(parts[1], 0, 59),
               second = number(parts[2], 0, 60);
    if (!hour || !minute || !second) return false;
    out.tm_hour = *hour;
    out.tm_min = *minute;
    out.tm_sec = *second;
    return true;
}

/// "Dec", "1", "03:30:09"
std::optional<std::tm> read_date(std::string_view month, std::string_view day,
                                 std::string_view clock) {
    std::tm time{};
    time.tm_isdst = -1;
    for (std::size_t m = 0; m < months.size(); ++m)
        if (months[m] == month) time.tm_mon = static_cast<int>(m), time.tm_mday = -1;
    const auto mday = number(day, 1, 31);
    if (time.tm_mday == 0 || !mday || !read_clock(clock, time)) return std::nullopt;
    time.tm_mday = *mday;
    return time;
}

std::int64_t local(std::tm time, int year) {
    time.tm_year = year - 1900;
    return std::mktime(&time);
}

/// "[ 12345.678901]", the last of its kind.
std::int64_t since_boot(std::string_view before, const Machine& machine) {
    const std::size_t close = before.rfind(']'), open = before.rfind('[', close);
    if (close == std::string_view::npos || open == std::string_view::npos) return 0;
    const auto seconds = parse_number(trim(before.substr(open + 1, close - open - 1)), 0, 1e10);
    return seconds && machine.boot_s != 0 ? machine.boot_s + std::llround(*seconds) : 0;
}

/// "[Tue Dec  1 03:30:09 2026]"
std::int64_t dmesg_date(std::string_view before) {
    const std::size_t close = before.find(']');
    if (!before.starts_with('[') || close == std::string_view::npos) return 0;
    const auto words = words_of(before.substr(1, close - 1));
    if (words.size() != 5) return 0;
    const auto time = read_date(words[1], words[2], words[3]);
    const auto year = number(words[4], 1970, 9999);
    return time && year ? local(*time, *year) : 0;
}

/// "2026-12-01T03:30:09+0000", "...Z", "...+00:00", with a fraction, and of local time without.
std::int64_t iso_date(std::string_view before) {
    const std::string_view word = before.substr(0, before.find(' '));
    if (word.size() < 19 || word[4] != '-' || word[10] != 'T') return 0;
    const auto year = number(word.substr(0, 4), 1970, 9999),
               month = number(word.substr(5, 2), 1, 12), day = number(word.substr(8, 2), 1, 31);
    std::tm time{};
    time.tm_isdst = -1;
    if (!year || !month || !day || !read_clock(word.substr(11, 8), time)) return 0;
    time.tm_year = *year - 1900;
    time.tm_mon = *month - 1;
    time.tm_mday = *day;
    const std::size_t zone = word.find_first_of("Z+-", 19);
    if (zone == std::string_view::npos) return std::mktime(&time);
    if (word[zone] == 'Z') return timegm(&time);
    const auto hours = number(word.substr(zone + 1, 2), 0, 14);
    const auto minutes = number(word.substr(word.size() - 2), 0, 59);
    if (!hours || !minutes) return 0;
    const std::int64_t offset = *hours * 3600 + *minutes * 60;
    return timegm(&time) - (word[zone] == '+' ? offset : -offset);
}

/// "Dec  1 03:30:09 n3 kernel:"
std::int64_t syslog_date(std::string_view before, const Machine& machine) {
    const auto words = words_of(before);
    if (words.size() < 3) return 0;
    const auto date = read_date(words[0], words[1], words[2]);
    if (!date) return 0;
    const std::time_t now = machine.now_s;
    std::tm today{};
    localtime_r(&now, &today);
    const std::int64_t at = local(*date, today.tm_year + 1900);
    return at > machine.now_s + day_s ? local(*date, today.tm_year + 1899) : at;
}

}  // namespace

std::int64_t parse_kernel_time(std::string_view before, const Machine& machine) {
    for (const std::int64_t at : {iso_date(before), dmesg_date(before), since_boot(before, machine),
                                  syslog_date(before, machine)})
        if (at > 0) return at;
    return 0;
}

}  // namespace arena::health
