// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/ignored_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace arena {

namespace {

constexpr std::size_t max_ignored = 64, max_word = 128;

bool is_word(std::string_view word) {
    return !word.empty() && word.size() <= max_word &&
           std::all_of(word.begin(), word.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.';
           });
}

/// As people list an option: with or without its dashes.
std::string_view undashed(std::string_view word) {
    return word.starts_with("--") ? word.substr(2) : word;
}

}  // namespace

bool IgnoredWords::take(std::string_view word) {
    const auto is_it = [&](const std::string& w) { return undashed(w) == undashed(word); };
    if (std::none_of(asked_.begin(), asked_.end(), is_it)) return false;
    if (std::none_of(taken_.begin(), taken_.end(), is_it)) taken_.emplace_back(word);
    return true;
}

std::vector<std::string> IgnoredWords::idle() const {
    std::vector<std::string> idle;
    for (const std::string& asked : asked_)
        if (std::none_of(taken_.begin(), taken_.end(),
                         [&](const std::string& t) { return undashed(t) == undashed(asked); }))
            idle.push_back(asked);
    return idle;
}

Result<std::vector<std::string>> read_ignored_words(std::string_view list) {
    std::vector<std::string> words;
    for (const std::string_view word : split(list, ',')) {
        if (!is_word(word))
            return usage_error(
                fmt::format("'{}' is not a list of options or keys such as --some-option,some_key",
                            printable(list, 60)));
        words.emplace_back(word);
    }
    if (words.size() > max_ignored)
        return usage_error(
            fmt::format("{} words are listed; at most {} are accepted", words.size(), max_ignored));
    return words;
}

}  // namespace arena
