// SPDX-License-Identifier: GPL-2.0-or-later
// What parse_diary_line() takes reads the same when it is written again, and has words in one line.
// also: plugin/sched/observe/diary.cc plugin/sched/history/line_file.cc
#include "fuzz.h"
#include "plugin/sched/observe/diary.h"

FUZZ(text) {
    const auto line = arena::parse_diary_line(text);
    if (!line) return;
    const auto again = arena::parse_diary_line(arena::format_diary_line(*line));
    if (!again || !(*again == *line)) std::abort();
    if (arena::words_of(*line, 1e9).find('\n') != std::string::npos) std::abort();
}
