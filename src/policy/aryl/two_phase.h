// SPDX-License-Identifier: GPL-2.0-or-later
// The two phases of Aryl's allocation by count of GPUs alone: base demands of waiting jobs,
// shortest first; then what is left to elastic jobs, by an exact knapsack over what each worker
// count saves of their time. What the policy and `arena-lab evaluate-loan` both call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/cluster.h"

namespace arena {

struct BaseDemand {
    JobId job = 0;
    double run_s = 0;  ///< at its base, any unit
    std::int64_t gpus = 0;
};

/// Indices: the shortest first, then the lowest job.
std::vector<std::uint32_t> shortest_first(std::span<const BaseDemand>);

/// Phase 1: those that fit, in the order they are admitted; the others are skipped.
std::vector<std::uint32_t> admit(std::span<const BaseDemand>, std::int64_t capacity_gpus);

/// What an elastic job may have beside its base.
struct Growth {
    struct Step {
        std::int64_t gpus = 0;  ///< more than the base, > 0
        double saved_s = 0;     ///< of its time; what saves nothing is never chosen
    };
    std::vector<Step> steps;
};

struct Shares {
    std::vector<std::int32_t> chosen;  ///< by job, index of its step, or -1: its base
    double saved_s = 0;
    double bound_s = 0;     ///< no other choice saves more
    bool is_exact = false;  ///< this one saves most
};

/// Phase 2. Exact by dynamic programming up to 2^24 cells of (job, GPUs free), GPUs counted in the
/// greatest common divisor of all steps; beyond, the best found and a bound. 4,096 GPUs and 500
/// jobs take tens of milliseconds.
Shares share_out(std::span<const Growth>, std::int64_t capacity_gpus);

}  // namespace arena
