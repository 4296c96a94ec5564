// SPDX-License-Identifier: GPL-2.0-or-later
// The cluster, the queue and what is new, as everybody may see them: the answer to `live` on the
// socket, which `arena exporter` shows to HTTP clients that nobody knows. It depends on Slurm's
// PrivateData alone, never on who asks. Leaves out what only a job's owner sees (`arena explain`).
#pragma once

#include <string>

#include "base/json.h"
#include "plugin/sched/round/report.h"

namespace arena {

struct LiveState {
    const Books& books;
    const Round& round;
    const SchedulerStats& stats;
    bool enabled = true;
    Json observe = nullptr;  ///< what an observing Arena saw; null where it acts
    double now_s = 0;        ///< seconds since the epoch
};

/// What PrivateData leaves to see.
struct LiveShown {
    bool jobs = true, nodes = true;
    /// Of waiting and of running jobs each, and of nodes; how many there are is said.
    std::size_t most_jobs = 500, most_nodes = 1024;
    double past_s = 86400;  ///< of jobs that are over: those that ended since so long ago
};

std::string live_json(const LiveState& state, const LiveShown& shown);

}  // namespace arena
