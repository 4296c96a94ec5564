// SPDX-License-Identifier: GPL-2.0-or-later
// S2: the micro-batches of a global batch split so that replicas with a slow GPU have fewer
// (Greyhound, ATC'25). The least greatest time, exactly; the published least variance is up to a
// quarter worse and takes seconds. The order of the data changes, its sum does not.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace arena::slowdown {

/// Above it is no job.
inline constexpr std::int64_t most_micro_batches = 10'000'000;

struct MicroBatchSplit {
    std::vector<std::int64_t> counts;  ///< of each replica, >= 1
    double value = 0;  ///< the greatest (count + stages - 1) x time, in the unit of the times
    bool operator==(const MicroBatchSplit&) const = default;
};

/// Least max_i (m_i + stages - 1) t_i over integers m_i >= 1 whose sum is micro_batches. t_i > 0:
/// time per micro-batch of replica i, with pipelines of its slowest stage. Of equal
/// replicas the lowest index gets one first. Errors: fewer micro-batches than replicas, no replica,
/// a time, micro_batches or stages out of range. O(micro_batches log replicas).
Result<MicroBatchSplit> split_micro_batches(std::span<const double> times,
                                            std::int64_t micro_batches, std::int64_t stages = 1);

/// The value of counts that are given.
double greatest_time(std::span<const double> times, std::span<const std::int64_t> counts,
                     std::int64_t stages = 1);

/// m_i / (M / D), by which sums of gradients and losses of replica i are multiplied so that the
/// result is that of an even split, where each replica takes the mean over its own.
std::vector<double> gradient_weights(std::span<const std::int64_t> counts);

/// An iteration has a part that the split does not change: t_iter = fixed + slope x value.
struct Calibration {
    double fixed = 0;  ///< >= 0, in the unit of the times
    double slope = 1;  ///< >= 0
    [[nodiscard]] double iteration(double value) const { return fixed + slope * value; }
};
struct Observed {
    double value = 0;      ///< greatest_time() of the split that ran
    double iteration = 0;  ///< what it took
};
/// Least squares within the ranges of Calibration. Where all values are the same (one split has
/// run so far) the slope stays 1. Errors: nothing observed; a number that is not finite and > 0.
Result<Calibration> calibrate(std::span<const Observed> observed);

/// Where no time per micro-batch was measured: t_i from a matrix product on each replica's slowest
/// GPU. Replicas within 1.10 of the (lower) median take healthy / m each; others lie between, on
/// the line from (fastest, healthy / m) to (slowest, current / m); m = even share of the
/// micro-batches.
struct Bounds {
    double healthy = 0;     ///< iteration before the event, > 0
    double current = 0;     ///< iteration now, >= healthy
    double even_share = 1;  ///< M / D, > 0
};
Result<std::vector<double>> times_from_products(std::span<const double> products,
                                                const Bounds& bounds);

}  // namespace arena::slowdown
