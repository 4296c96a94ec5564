// SPDX-License-Identifier: GPL-2.0-or-later
// What no policy can beat: a proven lower bound of the censored mean completion time of a workload,
// from a time-slotted Lagrangian relaxation with one price per GPU type and slot. For the gap of a
// policy.
#pragma once

#include <limits>

#include "sim/workload.h"

namespace arena::sim {

struct BoundOptions {
    double max_time_s = std::numeric_limits<double>::infinity();  ///< as SimulationOptions
    Errors errors;                                                ///< the truth is bounded
    RestartCost restart;
    int slots = 120;       ///< prices change between them
    int iterations = 300;  ///< of the prices
};

struct Bound {
    std::int64_t jobs = 0;  ///< submitted before max_time_s
    double mean_jct_s = 0;  ///< no policy has less
    double alone_s = 0;     ///< each job alone on its best offer: never above mean_jct_s
};

/// Relaxed: placement on nodes, restarts but the cheapest start of each job, and that a job runs on
/// one offer at a time with knowledge of the future. Kept: GPUs per type and slot, speeds of
/// offers, arrivals.
///
/// A job with work spread over time with density f(t) (integral 1) ends no sooner than its mean
/// time of work plus half its shortest run time T, because f <= 1 / T. Priced by GPU and slot, each
/// job then minimises alone, by a multiplier of its work; any prices and multipliers give a valid
/// bound. A job that does not end by max_time_s counts until then and uses nothing. O(iterations x
/// jobs x slots x offers).
Bound lower_bound(const Workload&, const BoundOptions&);

}  // namespace arena::sim
