// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/models/megatron_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "base/text.h"

namespace arena {

namespace {

using Effect = WordTable::Effect;

constexpr std::size_t max_words = 4096, max_pattern = 10000;

/// Read options without a value behind them.
constexpr std::array<std::string_view, 19> switches{"--swiglu",
                                                    "--quick-geglu",
                                                    "--geglu",
                                                    "--group-query-attention",
                                                    "--untie-embeddings-and-output-weights",
                                                    "--disable-bias-linear",
                                                    "--disable-moe-token-dropping",
                                                    "--add-qkv-bias",
                                                    "--qk-layernorm",
                                                    "--multi-latent-attention",
                                                    "--multi-head-latent-attention",
                                                    "--no-position-embedding",
                                                    "--use-rotary-position-embeddings",
                                                    "--bf16",
                                                    "--fp16",
                                                    "--fp8-e4m3",
                                                    "--fp8-hybrid",
                                                    "--squared-relu",
                                                    "--bert-no-binary-head"};

struct Word {
    std::string text;
    std::size_t at = 0;
};

bool separates(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\'' || c == '"';
}

/// Words without quotes and comments; a lone backslash (a continued line) is no word.
std::vector<Word> words_of(std::string_view text) {
    std::vector<Word> words(1);
    bool comment = false;
    for (std::size_t i = 0; i < text.size() && words.size() <= max_words; ++i) {
        const char c = text[i];
        Word& last = words.back();
        if (c == '\n') comment = false;
        if (c == '#' && last.text.empty()) comment = true;
        if (comment) continue;
        if (!separates(c)) {
            if (last.text.empty()) last.at = i;
            last.text += c;
        } else if (last.text == "\\") {
            last.text.clear();
        } else if (!last.text.empty()) {
            words.emplace_back();
        }
    }
    return words;
}

bool is_option(const Word& word) { return word.text.starts_with("--") && word.text.size() > 2; }

/// Part of a list, a pattern or a pair.
bool is_pattern(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789.,()[]*+") == std::string_view::npos;
}

/// The value behind an option, which may be several words; i is that of the last one.
std::string value_of(const std::vector<Word>& words, std::size_t& i, std::string_view option) {
    if (i + 1 >= words.size() || is_option(words[i + 1])) return {};
    std::string value = words[++i].text;
    const bool is_list = option == "--num-experts";
    const auto continues = [&](const std::string& next) {
        if (is_list) return parse_integer(next, 0, 1 << 30).has_value();
        return is_pattern(next) && (value.find_first_of("([") != std::string::npos);
    };
    while (i + 1 < words.size() && is_pattern(value) && continues(words[i + 1].text)) {
        const auto open = std::count(value.begin(), value.end(), '(');
        if (!is_list && open > 0 && open == std::count(value.begin(), value.end(), ')')) break;
        value += (is_list ? " " : "") + words[++i].text;
    }
    // Of an array of the shell: (--bf16 --vocab-size 100).
    while (value.ends_with(')') && std::count(value.begin(), value.end(), ')') >
                                       std::count(value.begin(), value.end(), '('))
        value.pop_back();
    return value;
}

/// The words of one text held against the table.
class Taken {
  public:
    Taken(std::string_view text, std::string_view name, IgnoredWords& ignored)
        : ignored_(ignored), faults_(text, name) {}

    void take(const std::vector<Word>& words, std::size_t& i) {
        std::string word = words[i].text;
        while (word.ends_with(')') || word.ends_with('\\') || word.ends_with(';')) word.pop_back();
        const std::size_t equal = word.find('=');
        GivenOption given{word.substr(0, equal), "", words[i].at};
        const WordTable::Meaning* meaning = table_.find(given.option, table_.all());
        if (meaning == nullptr || meaning->effect == Effect::refused) {
            if (!ignored_.take(given.option)) refuse(given, meaning);
            return;
        }
        narrow(given);
        if (meaning->effect == Effect::free) return;
        const bool is_switch =
            std::find(switches.begin(), switches.end(), given.option) != switches.end();
        if (equal != std::string::npos)
            given.value = word.substr(equal + 1);
        else if (!is_switch)
            given.value = value_of(words, i, given.option);
        if (meaning->effect == Effect::only) return check_only(given, *meaning);
        if (!is_switch && given.value.empty())
            faults_.add(given.at, given.option, "its value is missing");
        else if (given.value.find('$') != std::string::npos)
            faults_.add(given.at, given.option,
                        fmt::format("'{}' is a shell variable: give its value",
                                    printable(given.value, 40)));
        read_.push_back(std::move(given));
    }

    Result<MegatronWords> result() {
        if (const std::optional<Error> error = faults_.error()) return *error;
        return MegatronWords{static_cast<MegatronDialect>(std::countr_zero(dialects_)),
                             std::move(read_)};
    }

  private:
    void refuse(const GivenOption& given, const WordTable::Meaning* meaning) {
        const bool is_told = faults_.is_first();  // the nearest word is not looked for in vain
        faults_.add(given.at, given.option,
                    meaning != nullptr ? std::string(meaning->value)
                    : is_told          ? unknown_word(table_, given.option, table_.all())
                                       : "");
    }

    /// One text is of one fork: what stands there must be in the same one.
    void narrow(const GivenOption& given) {
        const std::uint64_t both = dialects_ & table_.dialects_of(given.option);
        if (both != 0) {
            if (both != dialects_) decisive_ = given.option;
            dialects_ = both;
            return;
        }
        if (ignored_.take(given.option)) return;
        faults_.add(given.at, given.option,
                    fmt::format("an option of {}, but {} is one of {}",
                                table_.titles(table_.dialects_of(given.option)), decisive_,
                                table_.titles(dialects_)));
    }

    void check_only(const GivenOption& given, const WordTable::Meaning& meaning) {
        if (given.value == meaning.value || ignored_.take(given.option)) return;
        faults_.add(given.at, given.option,
                    fmt::format("'{}' is not priced: accepted is {}", printable(given.value, 40),
                                meaning.value));
    }

    const WordTable& table_ = megatron_table();
    IgnoredWords& ignored_;
    std::uint64_t dialects_ = table_.all();
    std::string decisive_;
    std::vector<GivenOption> read_;
    WordFaults faults_;
};

/// Megatron's patterns of layers: lists, sums of them, lists times a number.
class Pattern {
  public:
    explicit Pattern(std::string_view text) : text_(text) {}

    std::vector<int> whole() {
        std::optional<std::vector<int>> list = sum(0);
        if (!list || !text_.empty()) return {};
        return *list;
    }

  private:
    bool skip(char c) {
        const bool there = !text_.empty() && text_.front() == c;
        if (there) text_.remove_prefix(1);
        return there;
    }

    std::optional<std::vector<int>> sum(int depth) {
        std::vector<int> list;
        do {
            const std::optional<std::vector<int>> term = product(depth);
            if (!term || list.size() + term->size() > max_pattern) return std::nullopt;
            list.insert(list.end(), term->begin(), term->end());
        } while (skip('+'));
        return list;
    }

    std::optional<std::vector<int>> product(int depth) {
        std::optional<std::vector<int>> list = factor(depth);
        while (list && skip('*')) {
            const std::size_t digits =
                std::min(text_.size(), text_.find_first_not_of("0123456789"));
            const auto times = parse_integer(text_.substr(0, digits), 0, max_pattern);
            if (!times || list->size() * static_cast<std::size_t>(*times) > max_pattern)
                return std::nullopt;
            text_.remove_prefix(digits);
            const std::vector<int> one = std::move(*list);
            list->clear();
            for (std::int64_t i = 0; i < *times; ++i)
                list->insert(list->end(), one.begin(), one.end());
        }
        return list;
    }

    std::optional<std::vector<int>> factor(int depth) {
        if (depth > 8) return std::nullopt;
        if (skip('(')) {
            std::optional<std::vector<int>> inner = sum(depth + 1);
            return skip(')') ? inner : std::nullopt;
        }
        if (!skip('[')) return std::nullopt;
        std::vector<int> list;
        do {
            const bool is_one = !text_.empty() && text_.front() == '1';
            if (!is_one && (text_.empty() || text_.front() != '0')) return std::nullopt;
            text_.remove_prefix(1);
            list.push_back(is_one ? 1 : 0);
        } while (skip(',') && list.size() <= max_pattern);
        return skip(']') ? std::optional(list) : std::nullopt;
    }

    std::string_view text_;
};

}  // namespace

std::vector<int> layer_pattern(std::string_view text) {
    std::string packed(text);
    std::erase(packed, ' ');
    return Pattern(packed).whole();
}

Result<MegatronWords> parse_megatron_words(std::string_view text, std::string_view name,
                                           IgnoredWords& ignored) {
    const std::vector<Word> words = words_of(text);
    if (words.size() > max_words)
        return usage_error(fmt::format("more than {} words of arguments", max_words),
                           std::string(name));
    Taken taken(text, name, ignored);
    bool is_bert = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i].text;
        if (word.find("pretrain_bert") != std::string::npos) is_bert = true;
        if (word.find("pretrain_t5") != std::string::npos)
            return usage_error(
                "pretrain_t5 is not supported: accepted are pretrain_gpt and pretrain_bert",
                std::string(name));
        if (is_option(words[i])) taken.take(words, i);
    }
    Result<MegatronWords> result = taken.result();
    if (result) result->is_bert = is_bert;
    return result;
}

}  // namespace arena
