// SPDX-License-Identifier: GPL-2.0-or-later
// Promises in words and as JSON: for `arena explain` and the history of a job.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "plugin/sched/promises/promise_watch.h"

namespace arena {

/// "2026-01-31 14:20:00", in UTC: by when it ends.
std::string due_text(const Promise&);
/// "ends by 2026-01-31 14:20:00 UTC at the latest; in Slurm's own order it would start at
/// 2026-01-31 14:01:00 UTC with 2xa40 and run for 50.0 min, as is believed"; of a waiting job for
/// which it is too late for that by now: "was to end by 2026-01-31 14:20:00 UTC, for which 2xa40
/// had to start by 2026-01-31 14:02:00 UTC: it starts as soon as it can"; of one that is broken:
/// "was to end by 2026-01-31 14:20:00 UTC, and started too late for that"
std::string promise_words(const Promise&, double now_s);

/// Of a waiting job that has no promise: the last one before it that waits and has one.
struct BehindPromise {
    JobId job = 0;  ///< 0: there is none
    bool same_step = false;
};
/// O(jobs log jobs).
BehindPromise behind_promise(const Snapshot&, const PromiseBook&, double priority_step, JobId);

/// Whether who asks may know of a job that is not theirs.
using SeesJob = std::function<bool(JobId)>;

struct Promises {
    const Snapshot& snapshot;  ///< of the last round
    const PromiseBook& book;
    const PromiseWatch& watch;
    double priority_step;
};
/// What `arena explain` says of a job's promise; null where there is nothing to say.
Json promise_json(const Promises&, JobId, const SeesJob&);
Json promise_counts_json(const PromiseBook&, const PromiseWatch&);

}  // namespace arena
