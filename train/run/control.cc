// SPDX-License-Identifier: GPL-2.0-or-later
#include "train/run/control.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "base/text.h"
#include "core/limits.h"

namespace arena::train {
namespace {

constexpr std::size_t longest_script = 1 << 20;

Error no_word(std::string_view text) {
    return usage_error(fmt::format(
        "\"{}\" is none of: split N,N...; swap RANK RANK; park SECONDSs (up to {:.0f}); "
        "check ID [gpus] [links RANK>RANK,...|RANK>RANK,...]",
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

std::optional<Check::Link> read_link(std::string_view text) {
    const std::size_t arrow = text.find('>');
    if (arrow == std::string_view::npos) return std::nullopt;
    const auto from = parse_integer(text.substr(0, arrow), 0, limits::gpus),
               to = parse_integer(text.substr(arrow + 1), 0, limits::gpus);
    if (!from || !to) return std::nullopt;
    return Check::Link{*from, *to};
}

std::optional<std::vector<Check::Pass>> read_passes(std::string_view text) {
    std::vector<Check::Pass> passes;
    for (const std::string_view one : split(text, '|')) {
        Check::Pass& pass = passes.emplace_back();
        for (const std::string_view pair : split(one, ',')) {
            const auto link = read_link(pair);
            if (!link) return std::nullopt;
            pass.push_back(*link);
        }
    }
    if (passes.size() > most_passes) return std::nullopt;
    return passes;
}

/// "ID", "gpus" and "links PASSES", at least one of the last two.
std::optional<Word> read_check(std::span<const std::string_view> words) {
    const auto id = parse_integer(words.front(), 0, std::numeric_limits<Index>::max());
    if (!id) return std::nullopt;
    words = words.subspan(1);
    Check check{.id = *id, .gpus = false, .passes = {}};
    if (!words.empty() && words.front() == "gpus") {
        check.gpus = true;
        words = words.subspan(1);
        if (words.empty()) return check;
    }
    if (words.size() != 2 || words[0] != "links") return std::nullopt;
    auto passes = read_passes(words[1]);
    if (!passes) return std::nullopt;
    check.passes = *std::move(passes);
    return check;
}

std::optional<Word> read(const std::vector<std::string_view>& words) {
    if (words.size() >= 3 && words[0] == "check") return read_check(std::span(words).subspan(1));
    if (words.size() == 2 && words[0] == "split") return read_split(words[1]);
    if (words.size() == 3 && words[0] == "swap") return read_swap(words[1], words[2]);
    if (words.size() == 2 && words[0] == "park") return read_park(words[1]);
    return std::nullopt;
}

std::string to_text(const Check::Pass& pass) {
    std::vector<std::string> links;
    for (const auto& [from, to] : pass) links.push_back(fmt::format("{}>{}", from, to));
    return join(links, ",");
}

struct ToText {
    std::string operator()(const Split& word) const {
        return fmt::format("split {}", fmt::join(word.micro_batches, ","));
    }
    std::string operator()(const Swap& word) const {
        return fmt::format("swap {} {}", word.a, word.b);
    }
    std::string operator()(const Park& word) const { return fmt::format("park {}s", word.seconds); }
    std::string operator()(const Check& word) const {
        std::vector<std::string> passes;
        for (const Check::Pass& pass : word.passes) passes.push_back(to_text(pass));
        return fmt::format("check {}{}{}{}", word.id, word.gpus ? " gpus" : "",
                           passes.empty() ? "" : " links ", join(passes, "|"));
    }
};

bool is_pass(const Check::Pass& pass, Index ranks) {
    std::vector<Index> ends;
    for (const auto& [from, to] : pass) ends.insert(ends.end(), {from, to});
    std::ranges::sort(ends);
    return !ends.empty() && ends.back() < ranks && std::ranges::adjacent_find(ends) == ends.end();
}

/// A word that a run of this plan can obey.
struct Fits {
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
    Status operator()(const Check& word) const {
        for (const Check::Pass& pass : word.passes)
            if (!is_pass(pass, plan.layout.size()))
                return usage_error(fmt::format(
                    "check {}: links {}: no pairs of ranks of 0 to {}, none of them in two",
                    word.id, printable(to_text(pass)), plan.layout.size() - 1));
        return Done{};
    }
};

}  // namespace

std::string to_text(const Word& word) { return std::visit(ToText{}, word); }

Result<Word> parse_word(std::string_view text) {
    if (auto word = read(words_of(text))) return *std::move(word);
    return no_word(text);
}

Status check_word(const Word& word, const TrainPlan& plan) { return std::visit(Fits{plan}, word); }

Result<std::unique_ptr<Control>> ControlScript::open(const std::string& path,
                                                     const TrainPlan& plan) {
    std::unique_ptr<ControlScript> script(new ControlScript(path));
    const auto text = read_regular_file(path, longest_script);
    if (!text) return text.error();
    if (const Status whole = script->read(*text, plan); !whole) return whole.error();
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
    auto word = parse_word(line.substr(space + 1));
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
