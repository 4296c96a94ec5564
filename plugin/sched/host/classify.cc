// SPDX-License-Identifier: GPL-2.0-or-later
// Which holds are Arena's: pure rules over what Slurm's job record says. A held job without a
// matching mark belongs to whoever held it; an unheld pending one is taken back at once.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"
#include "plugin/sched/host/end_comment.h"
#include "plugin/sched/host/host.h"

namespace arena {
namespace {

bool mark_is_current(const JobFacts& facts) {
    return facts.mark && facts.mark->restart == facts.restart;
}

/// We asked for a checkpoint and the job came back: by its exit code (the mark still carries the
/// count of the run that was signalled) or by our own requeue at the deadline (the mark was moved
/// on).
bool came_back_from_checkpoint(const JobFacts& facts) {
    if (!facts.mark || facts.mark->phase != Phase::checkpointing) return false;
    if (facts.special_exit) return facts.mark->restart + 1 == facts.restart;
    return facts.mark->restart == facts.restart;
}

/// A member of an array that ended under it, and that left with the code which says so.
bool came_back_from_array(const JobFacts& facts) {
    return facts.special_exit && facts.mark && facts.mark->array != 0 &&
           facts.mark->phase == Phase::started && facts.mark->restart + 1 == facts.restart;
}

Step classify_held(const JobFacts& facts) {
    // Let go by an observing Arena, and held since: not by Arena.
    if (facts.mark && facts.mark->phase == Phase::observed) return Step::take_user_hold;
    if (!facts.mark) {
        if (facts.restart != 0) return Step::none;
        return facts.asked_to_hold ? Step::take_user_hold : Step::take;
    }
    if (facts.mark->hold != OtherHold::none) return Step::none;
    // Released by us, held again by Slurm itself: it found that no node can hold the shape (any
    // more).
    if (facts.mark->phase == Phase::released && mark_is_current(facts)) return Step::take;
    return came_back_from_checkpoint(facts) || came_back_from_array(facts) ? Step::take
                                                                           : Step::none;
}

}  // namespace

bool waits_released(const JobFacts& facts) {
    return mark_is_current(facts) && !facts.mark->newer &&
           (facts.mark->phase == Phase::released || facts.mark->phase == Phase::starting);
}

Step classify(const JobFacts& facts) {
    if (facts.mark && (facts.mark->phase == Phase::off || facts.mark->newer)) return Step::none;
    switch (facts.state) {
        case HostJobState::pending:
            if (facts.held) return classify_held(facts);
            return waits_released(facts) ? Step::none : Step::take;
        case HostJobState::running:
            return waits_released(facts) ? Step::mark_started : Step::none;
        default:
            return Step::none;
    }
}

Step classify_observed(const JobFacts& facts) {
    const Step step = classify(facts);
    if (facts.state != HostJobState::pending) return step;
    return facts.held && step == Step::take ? step : Step::none;
}

bool plannable(const JobFacts& facts) {
    if (facts.state != HostJobState::pending || !mark_is_current(facts) || facts.mark->newer)
        return false;
    if (facts.mark->hold != OtherHold::none) return false;
    if (facts.held) return facts.mark->phase == Phase::held;
    return facts.mark->phase == Phase::released;
}

std::optional<std::string> comment_of_end(std::string_view comment, std::string_view end) {
    constexpr std::string_view before = "arena:v1 state=";
    if (!comment.starts_with(before)) return std::nullopt;
    const std::string_view rest = comment.substr(before.size());
    const std::string_view state = rest.substr(0, rest.find(' '));
    std::string word(end);
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (state == "off" || state == word) return std::nullopt;
    return fmt::format("{}{}{}", before, word, rest.substr(state.size()));
}

std::string with_word(std::string_view comment, std::string_view word) {
    const std::string_view key = word.substr(0, word.find('='));
    std::vector<std::string> kept;
    for (const std::string_view other : split(comment, ' '))
        if (other.substr(0, other.find('=')) != key) kept.emplace_back(other);
    kept.emplace_back(word);
    return join(kept, " ");
}

double number_in(std::string_view comment, std::string_view key) {
    for (const std::string_view word : split(comment, ' ')) {
        if (!word.starts_with(key) || word.substr(key.size(), 1) != "=") continue;
        return parse_number(word.substr(key.size() + 1), 0, 1e15).value_or(0);
    }
    return 0;
}

std::string with_slow_words(std::string_view comment, std::string_view words) {
    std::vector<std::string> kept;
    for (const std::string_view word : split(comment, ' ')) {
        const std::string_view key = word.substr(0, word.find('='));
        if (key != "slow" && key != "action" && key != "lost") kept.emplace_back(word);
    }
    kept.emplace_back(words);
    return join(kept, " ");
}

}  // namespace arena
