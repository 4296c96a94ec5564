// SPDX-License-Identifier: GPL-2.0-or-later
// See json_place.h.
#include "base/json_place.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"

namespace arena {

namespace {

using Json = nlohmann::json;

/// Accepts all events, keeps the place of the error.
struct FaultFinder : nlohmann::json_sax<Json> {
    std::size_t byte = 0, end = 0;
    std::string what = "unexpected end";
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }
    bool number_float(number_float_t, const string_t&) override { return true; }
    bool string(string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool start_object(std::size_t) override { return true; }
    bool key(string_t&) override { return true; }
    bool end_object() override { return true; }
    bool start_array(std::size_t) override { return true; }
    bool end_array() override { return true; }
    /// "[json.exception.parse_error.101] parse error at line 2, column 3: syntax error while ..."
    bool parse_error(std::size_t position, const std::string& token,
                     const Json::exception& error) override {
        constexpr std::string_view before = "column ";
        end = position;
        byte = end - std::min(end, std::max<std::size_t>(1, token.size()));
        std::string_view text = error.what();
        if (const std::size_t column = text.find(before); column != std::string_view::npos)
            text.remove_prefix(std::min(text.size(), text.find(':', column) + 1));
        what = printable(trim(text), 160);
        return false;
    }
};

/// Python writes numbers that JSON does not have. The one that begins before `end` and reaches it.
std::optional<JsonFault> find_unwritable_number(std::string_view text, std::size_t end) {
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        const std::size_t from = end - std::min(end, word.size());
        const std::size_t at = text.substr(0, from + 2 * word.size()).find(word, from);
        if (at == std::string_view::npos || at >= end) continue;
        return JsonFault{place_in(text, at),
                         std::string(word) + " is no number of JSON: write a number or null"};
    }
    return std::nullopt;
}

/// Whether a string that ends before `end` is a key: a colon follows.
bool is_key(std::string_view text, std::size_t end) {
    const std::size_t next = text.find_first_not_of(" \t\r\n", std::min(end, text.size()));
    return next != std::string_view::npos && text[next] == ':';
}

}  // namespace

TextPlace place_in(std::string_view text, std::size_t byte) {
    const std::string_view before = text.substr(0, byte);
    const std::size_t last_end = before.rfind('\n');
    return {1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')),
            last_end == std::string_view::npos ? before.size() + 1 : before.size() - last_end};
}

JsonFault find_json_fault(std::string_view text) {
    FaultFinder finder;
    Json::sax_parse(text, &finder);
    if (const auto number = find_unwritable_number(text, finder.end)) return *number;
    return {place_in(text, finder.byte), finder.what};
}

std::optional<std::size_t> find_json_key(std::string_view text,
                                         const std::vector<std::string_view>& path) {
    std::optional<std::size_t> found;
    std::size_t depth = 0,
                inside = 0;   // inside: objects of the path that are open, below the top one
    bool opens_next = false;  // the member that the path goes through has been named
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '{' || c == '[') {
            ++depth;
            if (opens_next && c == '{') ++inside;
            opens_next = false;
        } else if (c == '}' || c == ']') {
            if (depth > 0) --depth;
            if (depth <= inside) inside = depth == 0 ? 0 : depth - 1;
        } else if (c == ',') {
            opens_next = false;
        } else if (c == '"') {
            const std::size_t begin = i;
            for (++i; i < text.size() && text[i] != '"'; ++i)
                if (text[i] == '\\') ++i;
            if (depth != inside + 1 || !is_key(text, i + 1)) continue;
            if (text.substr(begin + 1, i - begin - 1) != path[inside]) continue;
            if (inside + 1 == path.size()) found = begin;
            opens_next = inside + 1 < path.size();
        }
    }
    return found;
}

}  // namespace arena
