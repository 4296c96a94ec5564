// SPDX-License-Identifier: GPL-2.0-or-later
// Slow GPUs and links that a simulation meets: when, where, how slow.
#pragma once

#include <string>
#include <vector>

#include "core/cluster.h"
#include "reports/quarantine.h"
#include "reports/slowdown_mode.h"
#include "slowdown/cause.h"

namespace arena::sim {

constexpr std::int64_t every_gpu = -1;

struct Slowdown {
    double start_s = 0;     ///< from time zero of the simulation, >= 0
    double duration_s = 0;  ///< > 0
    slowdown::Cause cause = slowdown::Cause::compute;
    NodeIndex node = 0;
    std::vector<std::int64_t> gpus = {};  ///< of the node, ascending; empty: all
    NodeIndex peer = 0;  ///< communication: the other end; the same node: among its GPUs
    std::int64_t peer_gpu = every_gpu;
    double factor = 1;    ///< times slower, >= 1
    double delay_s = 0;   ///< added to each iteration's computation, >= 0
    std::size_t row = 0;  ///< its place among all, by start
    [[nodiscard]] double end_s() const { return start_s + duration_s; }
    bool operator==(const Slowdown&) const = default;
};

/// "n1/3", "n1/0,2", "n1 + n2/4"; for people.
std::string place_of(const Slowdown&, const std::vector<NodeState>& nodes);

/// What the jobs and the scheduler do about them, and what that takes.
struct SlowdownOptions {
    SlowdownMode mode = SlowdownMode::off;  ///< of every job
    double threshold = 1.1;  ///< an iteration that is so many times longer is an event
    /// From the onset until it is detected, in iterations as they are then: the median that the
    /// detector has on published series.
    double latency_iterations = 5;
    /// Profiling and validation, without progress: Greyhound's mean, 6.86 s.
    double validate_s = 6.86;
    SlowdownRules rules = {};
};

}  // namespace arena::sim
