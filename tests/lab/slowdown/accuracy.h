// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab slowdown show --accuracy`: how far a watched job's iteration times, as its agents
// estimated them, are those of its trainer's own log.
#pragma once

#include <cstdint>
#include <string>

#include "cli/common/cli.h"

namespace arena::cli {

struct AccuracyFiles {
    std::string log;       ///< of arena-train --log
    std::string watched;   ///< events.jsonl, or the directory it is in; "": that of the job
    std::int64_t job = 0;  ///< whose arena-watch-JOBID is in the current directory
};

/// Yes: the median error is at most 1.2 %.
int show_accuracy(const Globals&, const AccuracyFiles&);

}  // namespace arena::cli
