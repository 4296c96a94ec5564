// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/control.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "core/limits.h"

namespace arena::train {
namespace {

constexpr std::size_t longest_script = 1 << 20;

Error no_word(std::string_view text) {
    return usage_error(
        fmt::format("\"{}\" is none of: split N,N...; swap RANK RANK; park SECONDSs (up to {:.0f})",
                    printable(text), longest_park_s));
}

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words = split(text, ' ');
    std::erase(words, "");
    return words;
}

std::optional<Word> read_split(std::string_view counts) {
    Split word;
    for (const std::string_view one : split(counts, ',')) {
        const auto count = parse_integer(one, 1, limits::batch);
        if (!count) return std::nullopt;
        word.micro_batches.push_back(*count);
    }
    return word;
}

std::optional<Word> read_swap(std::string_view a, std::string_view b) {
    const auto first = parse_integer(a, 0, limits::gpus),
               second = parse_integer(b, 0, limits::gpus);
    if (!first || !second) return std::nullopt;
    return Swap{*first, *second};
}

std::optional<Word> read_park(std::string_view time) {
    if (!time.ends_with('s')) return std::nullopt;
    const auto seconds = parse_number(time.substr(0, time.size() - 1), 0, longest_park_s);
    if (!seconds) return std::nullopt;
    return Park{*seconds};
}

std::optional<Word> read(const std::vector<std::string_view>& words) {
    if (words.size() == 2 && words[0] == "split") return read_split(words[1]);
    if (words.size() == 3 && words[0] == "swap") return read_swap(words[1], words[2]);
    if (words.size() == 2 && words[0] == "park") return read_park(words[1]);
    return std::nullopt;
}

struct ToText {
    std::string operator()(const Split& word) const {
        return fmt::format("split {}", fmt::join(word.micro_batches, ","));
    }
    std::string operator()(const Swap& word) const {
        return fmt::format("swap {} {}", word.a, word.b);
    }
    std::string operator()(const Park& word) const { return fmt::format("park {}s", word.seconds); }
};

struct Check {
    const TrainPlan& plan;
    Status operator()(const Split& word) const {
        const auto& now = plan.micro_batches;
        const Index all = std::accumulate(now.begin(), now.end(), Index{0});
        const auto& then = word.micro_batches;
        if (then.size() == now.size() && std::accumulate(then.begin(), then.end(), Index{0}) == all)
            return Done{};
        return usage_error(fmt::format("split {}: this run deals {} micro-batches to {} replicas",
                                       fmt::join(then, ","), all, now.size()));
    }
    Status operator()(const Swap& word) const {
        const Index ranks = plan.layout.size();
        if (word.a != word.b && word.a < ranks && word.b < ranks) return Done{};
        return usage_error(
            fmt::format("swap {} {}: no two ranks of 0 to {}", word.a, word.b, ranks - 1));
    }
    Status operator()(const Park&) const { return Done{}; }
};

}  // namespace

std::string to_text(const Word& word) { return std::visit(ToText{}, word); }

Result<Word> read_word(std::string_view text) {
    if (auto word = read(words_of(text))) return *std::move(word);
    return no_word(text);
}

Status check_word(const Word& word, const TrainPlan& plan) { return std::visit(Check{plan}, word); }

Result<std::unique_ptr<Control>> ControlScript::open(const std::string& path, const TrainPlan& plan,
                                                     bool is_chief) {
    std::unique_ptr<ControlScript> script(new ControlScript(path));
    if (is_chief) {
        const auto text = read_regular_file(path, longest_script);
        if (!text) return text.error();
        if (const Status whole = script->read(*text, plan); !whole) return whole.error();
    }
    return std::unique_ptr<Control>(std::move(script));
}

Status ControlScript::read(std::string_view text, const TrainPlan& plan) {
    std::size_t number = 0;
    for (const std::string_view line : split(text, '\n')) {
        ++number;
        if (trim(line).empty() || line.starts_with('#')) continue;
        if (const Status good = read_line(trim(line), plan); !good)
            return usage_error(good.error().message(), fmt::format("{}:{}", path_, number));
    }
    return Done{};
}

Status ControlScript::read_line(std::string_view line, const TrainPlan& plan) {
    const std::size_t space = line.find(' ');
    const auto step = parse_integer(line.substr(0, space), 1, Index{1} << 30);
    if (!step || space == std::string_view::npos)
        return usage_error(
            fmt::format("\"{}\" does not begin with a step and a space", printable(line)));
    auto word = read_word(line.substr(space + 1));
    if (!word) return word.error();
    if (const Status fits = check_word(*word, plan); !fits) return fits;
    lines_.push_back({*step, *std::move(word)});
    return Done{};
}

std::vector<Word> ControlScript::before(Index step) {
    std::vector<Word> due;
    for (const Line& line : lines_)
        if (line.step == step) due.push_back(line.word);
    return due;
}

bool ControlScript::is_released() { return access((path_ + ".release").c_str(), F_OK) == 0; }

}  // namespace arena::train
