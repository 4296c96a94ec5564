// SPDX-License-Identifier: GPL-2.0-or-later
// See move_end.h.
#include "plugin/sched/host/move_end.h"

#include <fmt/format.h>
#include <sys/wait.h>

namespace arena {

bool ended_by(int signal, std::uint32_t status) {
    const int word = static_cast<int>(status);
    if (signal == 0) return false;
    if (WIFSIGNALED(word)) return WTERMSIG(word) == signal;
    return WIFEXITED(word) && WEXITSTATUS(word) == 128 + signal;
}

namespace {

/// Told to leave, in this life.
bool is_told(const JobFacts& facts) {
    return facts.mark && !facts.mark->newer && facts.mark->phase == Phase::checkpointing &&
           facts.mark->restart == facts.restart;
}

bool has_exited_with(std::int64_t code, std::uint32_t status) {
    const int word = static_cast<int>(status);
    return WIFEXITED(word) && WEXITSTATUS(word) == code;
}

}  // namespace

bool leaves_unsaved(const JobFacts& facts, const JobEnd& end, const LeaveRules& rules) {
    if (!is_told(facts)) return false;
    const JobMark& mark = *facts.mark;
    if (end.completed) return ended_by(mark.signal, end.steps);
    if (!end.failed || has_exited_with(rules.requeue_code, end.status)) return false;
    return ended_by(mark.signal, end.status) ||
           end.at_s - static_cast<double>(mark.since) <= rules.grace_s;
}

bool leaves_saved(const JobFacts& facts, const JobEnd& end, const LeaveRules& rules) {
    return is_told(facts) && end.completed && has_exited_with(rules.requeue_code, end.steps);
}

std::string unsaved_words(std::uint32_t moves) {
    if (moves == 0) return {};
    const std::string often = moves == 1 ? "" : fmt::format(" {} times", moves);
    std::string words =
        fmt::format("left{} without a checkpoint: goes on from its last one", often);
    if (moves >= max_unsaved_moves)
        words +=
            "; Arena moves it no more by itself until it leaves with a checkpoint or reports that "
            "it goes on (arena report)";
    return words;
}

}  // namespace arena
