// SPDX-License-Identifier: GPL-2.0-or-later
// What parse_history_line() takes is a line of a job that reads the same when it is written again.
// also: plugin/sched/history/history_file.cc plugin/sched/history/line_file.cc
// plugin/sched/history/job_history.cc
#include "fuzz.h"
#include "plugin/sched/history/history_file.h"

FUZZ(text) {
    const auto line = arena::parse_history_line(text);
    if (!line) return;
    const std::string again = arena::format_history_line(*line);
    const auto twice = arena::parse_history_line(again);
    if (!twice || !(*twice == *line) || again.find('\n') != std::string::npos) std::abort();
}
