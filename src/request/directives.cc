// SPDX-License-Identifier: GPL-2.0-or-later
// `#ARENA key=value` lines of a batch script: the second channel of a request, for users of the
// REST API and sites without the SPANK plug-in. The text is hostile: it is matched against a small
// grammar, never evaluated, and read by slurmctld only in its first 64 KiB. Knows no meaning of any
// value.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/text.h"
#include "request/options.h"
#include "request/request.h"
#include "request/script_programs.h"

namespace arena {
namespace {

constexpr std::size_t max_value_bytes = 256;
constexpr std::string_view magic = "#ARENA";
constexpr std::string_view value_punctuation = "_.,:=x+-@";

bool is_value_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           value_punctuation.find(c) != std::string_view::npos;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool is_binary(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t') || byte >= 0x7f;
}

std::string place(std::size_t line) { return "#ARENA line " + std::to_string(line); }

/// "#ARENA" alone or followed by a blank; "#ARENAX" is an ordinary comment.
bool is_directive(std::string_view line) {
    if (!line.starts_with(magic)) return false;
    const std::string_view rest = line.substr(magic.size());
    return rest.empty() || is_blank(rest.front()) || is_binary(rest.front());
}

bool is_command(std::string_view line) {
    const auto first = line.find_first_not_of(" \t\r\v\f");
    return first != std::string_view::npos && line[first] != '#';
}

Status check_key(std::string_view key, std::size_t line) {
    const std::vector<std::string_view> known = setting_keys();
    if (std::find(known.begin(), known.end(), key) != known.end()) return Done{};
    const std::string near = nearest(key, known);
    return usage_error(
        fmt::format("unknown key '{}'{}; accepted: {}", printable(key, 40),
                    near.empty() ? "" : " (did you mean '" + near + "'?)", fmt::join(known, ", ")),
        place(line));
}

Result<Setting> parse_setting(std::string_view token, std::size_t line) {
    const auto equals = token.find('=');
    if (equals == std::string_view::npos || equals == 0)
        return usage_error("'" + printable(token, 40) + "' is not key=value, for example batch=512",
                           place(line));
    std::string key(token.substr(0, equals));
    std::replace(key.begin(), key.end(), '_', '-');
    const std::string_view value = token.substr(equals + 1);
    if (Status known = check_key(key, line); !known) return known.error();
    if (value.empty()) return usage_error(key + " has no value", place(line));
    if (value.size() > max_value_bytes)
        return usage_error(key + " is longer than 256 characters", place(line));
    if (!std::all_of(value.begin(), value.end(), is_value_char))
        return usage_error(
            "the value of " + key + ", '" + printable(value, 40) +
                "', has a character outside A-Z a-z 0-9 _ . , : = + - (a model file is "
                "given with sbatch --arena-model)",
            place(line));
    return Setting{std::move(key), std::string(value)};
}

Status add_setting(Setting setting, std::size_t line, std::vector<Setting>& settings) {
    const auto same = [&](const Setting& s) { return s.first == setting.first; };
    if (std::any_of(settings.begin(), settings.end(), same))
        return usage_error(setting.first + " is given twice; give it once", place(line));
    settings.push_back(std::move(setting));
    return Done{};
}

Status parse_line(std::string_view line, std::size_t number, std::vector<Setting>& settings) {
    if (std::any_of(line.begin(), line.end(), is_binary))
        return usage_error(
            "holds a byte that is not printable ASCII (DOS line ends and control characters too)",
            place(number));
    std::string_view rest = trim(line.substr(magic.size()));
    if (rest.empty())
        return usage_error("holds no key=value, for example batch=512", place(number));
    while (!rest.empty()) {
        const auto end = std::min(rest.find_first_of(" \t"), rest.size());
        Result<Setting> setting = parse_setting(rest.substr(0, end), number);
        if (!setting) return setting.error();
        if (Status added = add_setting(std::move(*setting), number, settings); !added)
            return added.error();
        rest = trim(rest.substr(end));
    }
    return Done{};
}

struct Line {
    std::string_view text;
    std::size_t number;
};

/// The directive lines before the first command, at most 64.
Result<std::vector<Line>> find_directives(std::string_view script) {
    const bool cut = script.size() > max_script_bytes;
    if (cut) script = script.substr(0, max_script_bytes);
    std::vector<Line> found;
    for (std::size_t number = 1; !script.empty(); ++number) {
        const auto newline = script.find('\n');
        const std::string_view line = script.substr(0, newline);
        if (is_directive(line)) {
            if (cut && newline == std::string_view::npos)
                return usage_error("runs past the first 64 KiB of the script", place(number));
            if (found.size() == max_directives)
                return usage_error("more than 64 #ARENA lines", place(number));
            found.push_back({line, number});
        } else if (is_command(line)) {
            break;
        }
        if (newline == std::string_view::npos) break;
        script.remove_prefix(newline + 1);
    }
    return found;
}

}  // namespace

Result<std::vector<Setting>> parse_directives(std::string_view script) {
    const Result<std::vector<Line>> lines = find_directives(script);
    if (!lines) return lines.error();
    std::vector<Setting> settings;
    for (const Line& line : *lines)
        if (Status parsed = parse_line(line.text, line.number, settings); !parsed)
            return parsed.error();
    return settings;
}

}  // namespace arena
