// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/models/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/text.h"

namespace arena {

namespace {

// megatron_words, config_words and peft_words.
#include "planner/models/word_tables.inc"

constexpr std::size_t told_faults = 6;

/// The text up to the first blank, which is taken off the line with the blanks after it.
std::string_view cut_word(std::string_view& line) {
    const std::string_view word = line.substr(0, line.find(' '));
    line = trim(line.substr(word.size()));
    return word;
}

}  // namespace

// ---- the table ----------------------------------------------------------------------------------

WordTable::WordTable(std::string_view text) {
    for (const std::string_view line : split(text, '\n'))
        if (!line.empty() && line.front() != '#') read_line(line);
}

void WordTable::read_line(std::string_view line) {
    std::string_view rest = line;
    const std::string_view head = cut_word(rest);
    const std::string_view name = cut_word(rest);
    if (head == "reason") {
        reasons_[name] = rest;
    } else if (head == "group") {
        groups_[name] = read_dialects(rest);
    } else if (head == "dialect" || head == "any") {
        add_dialect(name, rest, head == "any" ? any_ : all_);
    } else {
        read_words(line);
    }
}

void WordTable::add_dialect(std::string_view name, std::string_view title, std::uint64_t& kind) {
    if (dialects_.size() == 64) throw std::logic_error("more than 64 dialects of words");
    const std::uint64_t bit = std::uint64_t{1} << dialects_.size();
    dialects_.push_back({name, title});
    kind |= bit;
}

std::uint64_t WordTable::dialect(std::string_view name) const {
    for (std::size_t i = 0; i < dialects_.size(); ++i)
        if (dialects_[i].name == name) return std::uint64_t{1} << i;
    return 0;
}

std::uint64_t WordTable::read_dialects(std::string_view names) const {
    std::uint64_t bits = 0;
    for (const std::string_view part : split(names, ',')) {
        const auto group = groups_.find(part);
        std::uint64_t bit = group == groups_.end() ? dialect(part) : group->second;
        for (std::size_t i = 0; bit == 0 && i < part.size(); ++i) {
            const std::uint64_t letter = dialect(part.substr(i, 1));
            if (letter == 0) throw std::logic_error("no such dialect: " + std::string(part));
            bits |= letter;
        }
        bits |= bit;
    }
    return (bits & any_) != 0 ? all_ | bits : bits;
}

void WordTable::read_words(std::string_view line) {
    Meaning meaning;
    meaning.dialects = read_dialects(cut_word(line));
    const std::string_view effect = cut_word(line);
    if (effect == "read") {
        meaning.effect = Effect::read;
    } else if (effect.starts_with("only=")) {
        meaning.effect = Effect::only, meaning.value = effect.substr(5);
    } else if (effect.starts_with("refused:")) {
        const auto reason = reasons_.find(effect.substr(8));
        if (reason == reasons_.end())
            throw std::logic_error("no such reason: " + std::string(effect));
        meaning.effect = Effect::refused, meaning.value = reason->second;
    } else if (effect == "class") {
        meaning.effect = Effect::name;
    } else if (effect != "free") {
        throw std::logic_error("no such effect: " + std::string(effect));
    }
    while (!line.empty()) words_[cut_word(line)].push_back(meaning);
}

const WordTable::Meaning* WordTable::find(std::string_view word, std::uint64_t dialects) const {
    const auto at = words_.find(word);
    if (at == words_.end()) return nullptr;
    for (const Meaning& meaning : at->second)
        if ((meaning.dialects & dialects) != 0) return &meaning;
    return nullptr;
}

std::uint64_t WordTable::dialects_of(std::string_view word) const {
    const auto at = words_.find(word);
    std::uint64_t bits = 0;
    if (at != words_.end())
        for (const Meaning& meaning : at->second) bits |= meaning.dialects;
    return bits;
}

std::string WordTable::titles(std::uint64_t dialects) const {
    std::string list;
    for (std::size_t i = 0; i < dialects_.size(); ++i)
        if ((dialects >> i & 1) != 0)
            list += (list.empty() ? "" : ", ") + std::string(dialects_[i].title);
    return list;
}

std::vector<std::string> WordTable::names(std::uint64_t dialect) const {
    std::vector<std::string> names;
    for (const auto& [word, meanings] : words_)
        for (const Meaning& meaning : meanings)
            if (meaning.effect == Effect::name && (meaning.dialects & dialect) != 0)
                names.emplace_back(word);
    return names;
}

std::string WordTable::nearest(std::string_view word, std::uint64_t dialects) const {
    std::vector<std::string_view> known;
    for (const auto& [name, meanings] : words_)
        if ((dialects_of(name) & dialects) != 0) known.push_back(name);
    return arena::nearest(word, known);
}

std::string unknown_word(const WordTable& table, std::string_view word, std::uint64_t dialects) {
    const std::string near = table.nearest(word, dialects);
    return near.empty() ? "unknown" : fmt::format("unknown, did you mean '{}'", near);
}

const WordTable& megatron_table() {
    static const WordTable table(megatron_words);
    return table;
}

const WordTable& config_table() {
    static const WordTable table(config_words);
    return table;
}

const WordTable& peft_table() {
    static const WordTable table(peft_words);
    return table;
}

// ---- faults -------------------------------------------------------------------------------------

void WordFaults::add(std::optional<std::size_t> at, std::string_view word, std::string sentence) {
    if (std::find(words_.begin(), words_.end(), word) != words_.end()) return;
    if (words_.empty()) first_at_ = at, first_sentence_ = std::move(sentence);
    words_.emplace_back(word);
}

std::optional<Error> WordFaults::error() const {
    if (words_.empty()) return std::nullopt;
    std::string text = fmt::format("{}: {}", printable(words_.front(), 60), first_sentence_);
    const std::size_t told = std::min(words_.size(), told_faults);
    for (std::size_t i = 1; i < told; ++i)
        text += fmt::format("{} {}", i == 1 ? "; refused too:" : ",", printable(words_[i], 45));
    if (told < words_.size()) text += fmt::format(" and {} more", words_.size() - told);
    text += "; what does not change the cost can be listed: --arena-model-ignore, arena.ignore";
    if (!first_at_) return usage_error(text, std::string(name_));
    const TextPlace place = place_in(text_, *first_at_);
    return usage_error(text, fmt::format("{}:{}:{}", name_, place.line, place.column));
}

}  // namespace arena
