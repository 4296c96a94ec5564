// SPDX-License-Identifier: GPL-2.0-or-later
// Which groups are measured, and the loop that measures them. Every rank runs the same loop; what
// decides anything (times, clocks, Ctrl-C) is agreed first, so that no rank waits in a collective
// that another left out. Knows no library, no clock of its own, no file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "profiler/comm/comm.h"

namespace arena {

/// `groups` groups of `ranks` each, every one spread over the same `nodes` nodes.
struct CommPlacement {
    std::int64_t ranks = 2, nodes = 1, groups = 1;
    bool operator==(const CommPlacement&) const = default;
};

/// On 1, 2, 4, ... and all nodes: 1, 2, 4, ... and all ranks of each; one group alone, and as many
/// as have room on these nodes. Nothing where one rank would be alone.
std::vector<CommPlacement> all_placements(const CommWorld&);
/// Ranks that are neighbours on a node belong together. -1: this rank takes no part.
std::int64_t group_of(const CommWorld&, const CommPlacement&);

/// The largest size that is no more than `bytes` and that the collective divides evenly in pieces
/// of 16 bytes, as nccl-tests does; 0 when there is none.
std::int64_t usable_bytes(CommOp, std::int64_t bytes, std::int64_t ranks);

/// min, median and p95 (nearest rank) of samples, at least one of them.
struct SampleStatistics {
    double min = 0, median = 0, p95 = 0;
};
SampleStatistics statistics_of(std::vector<double> samples);

struct CommQuery {
    std::string gpu_type;
    std::vector<CommOp> ops;
    std::vector<CommPlacement> placements;
    /// How far apart the first 1, 2, 3, ... nodes lie, of several nodes; empty: nobody knows.
    std::vector<CommSpan> spans = {};
    std::int64_t min_bytes = 1024, max_bytes = std::int64_t{1} << 30, factor = 2;
    double budget_s = 600;
};

struct CommHooks {
    std::function<double()> now;  ///< monotonic seconds
    std::function<bool()> is_stopped = [] { return false; };
    std::function<void(const CommTime&)> on_time = [](const CommTime&) {};
};

struct CommOutcome {
    std::size_t wanted = 0, measured = 0;
    std::string reason;       ///< why some are missing
    bool has_failed = false;  ///< this rank's library or device did
};

/// A send is measured where a group has two ranks: each sends to the other and receives from it, as
/// nccl-tests' sendrecv does. A time is that of the slowest rank of all groups. What was measured
/// before a failure has been told to on_time.
CommOutcome measure_comm(Communicator&, const CommWorld&, const CommQuery&, const CommHooks&);

}  // namespace arena
