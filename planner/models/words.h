// SPDX-License-Identifier: GPL-2.0-or-later
// What each word of a published model says: an option of Megatron-LM, a key of a config.json. One
// table per kind of text (*.table, compiled in) lists every word that may stand there. A word that
// changes the cost and is not read, and a word that nobody knows, are refused by name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_place.h"
#include "base/result.h"

namespace arena {

/// A table of words. Lines: "dialect LETTERS TITLE", "any LETTERS TITLE" (stands in every dialect),
/// "group NAME DIALECTS", "reason KEY SENTENCE", and "DIALECTS EFFECT WORD ..." with groups and
/// dialects joined by ',' or, when all have one letter, not at all; EFFECT is read, free,
/// only=VALUE, refused:REASON, or class: the words are names of classes.
class WordTable {
  public:
    enum class Effect { read, free, only, refused, name };
    struct Meaning {
        std::uint64_t dialects = 0;  ///< bits
        Effect effect = Effect::free;
        std::string_view value;  ///< only: the accepted value; refused: why
    };

    /// `text` must outlive the table. A line that does not parse is a bug: std::logic_error.
    explicit WordTable(std::string_view text);

    /// What the word means in one of the dialects; null = unknown there.
    [[nodiscard]] const Meaning* find(std::string_view word, std::uint64_t dialects) const;
    /// Dialects that know the word.
    [[nodiscard]] std::uint64_t dialects_of(std::string_view word) const;
    /// The dialect of that name, 0 = none.
    [[nodiscard]] std::uint64_t dialect(std::string_view name) const;
    [[nodiscard]] std::uint64_t all() const { return all_; }
    /// "Megatron-LM, MindSpeed".
    [[nodiscard]] std::string titles(std::uint64_t dialects) const;
    /// The names of classes of a dialect.
    [[nodiscard]] std::vector<std::string> names(std::uint64_t dialect) const;
    /// The known word that is most like this one, "" = none is.
    [[nodiscard]] std::string nearest(std::string_view word, std::uint64_t dialects) const;

  private:
    struct Dialect {
        std::string_view name, title;
    };
    void read_line(std::string_view line);
    void add_dialect(std::string_view name, std::string_view title, std::uint64_t& kind);
    void read_words(std::string_view line);
    std::uint64_t read_dialects(std::string_view names) const;

    std::vector<Dialect> dialects_;
    std::uint64_t all_ = 0, any_ = 0;
    std::map<std::string_view, std::uint64_t> groups_;
    std::map<std::string_view, std::string_view> reasons_;
    std::map<std::string_view, std::vector<Meaning>> words_;
};

/// The tables of this folder.
const WordTable& megatron_table();
const WordTable& config_table();
const WordTable& peft_table();

/// What is wrong with the words of one text, told in one sentence.
class WordFaults {
  public:
    WordFaults(std::string_view text, std::string_view name) : text_(text), name_(name) {}
    /// `at`: the word's byte of the text. Only the first one's sentence is told: see is_first().
    void add(std::optional<std::size_t> at, std::string_view word, std::string sentence);
    /// Whether the next fault will be the first.
    [[nodiscard]] bool is_first() const { return words_.empty(); }
    /// The first fault with its place, up to five more, what to do. Nothing without a fault.
    [[nodiscard]] std::optional<Error> error() const;

  private:
    std::string_view text_, name_;
    std::optional<std::size_t> first_at_;
    std::string first_sentence_;
    std::vector<std::string> words_;
};

/// "unknown, did you mean 'x'" O(words of the table): for the first fault.
std::string unknown_word(const WordTable&, std::string_view word, std::uint64_t dialects);

}  // namespace arena
