// SPDX-License-Identifier: GPL-2.0-or-later
// The stop rule: warm up, then time executions until the 95 % interval of their median is narrow
// enough or the operator's share of the budget is spent. The interval is that of order
// statistics (Le Boudec 2010, section 2.2).
#pragma once

#include <cstdint>
#include <vector>

#include "profiler/core/operator.h"

namespace arena {

struct StopRule {
    double share_s = 0.05;        ///< device seconds for this operator, warm-up included
    double target_spread = 0.01;  ///< half-width of the 95 % interval of the median / median
    std::int64_t min_samples =
        3;  ///< wanted even when they go beyond the share by less than `reserve_s`
    std::int64_t max_samples = 2000;
    std::int64_t warm_up_runs = 3;
    double warm_up_s = 0.02;
    double min_sample_s = 2e-4;  ///< shorter executions are timed in batches of this length
    double reserve_s = 0;        ///< what may be spent beyond the share to reach min_samples
};

struct Measurement {
    double seconds = 0;        ///< median of one execution
    std::int64_t repeats = 0;  ///< timed executions
    double spread = 1;         ///< 1 with a single sample: nothing is known
    double spent_s = 0;        ///< device seconds, warm-up included
};

struct MedianInterval {
    double median = 0;
    double spread = 1;       ///< half-width / median
    bool confident = false;  ///< at least 6 samples: the order-statistics interval covers 95 %
};

/// Distribution-free interval of the median from order statistics (binomial ranks). Below 6 samples
/// no such interval reaches 95 %: the full range is returned with confident = false.
MedianInterval median_interval(std::vector<double> samples);

/// The first execution counts only when there is no time for another one. O(n log n) per sample.
/// When the device's timer gives anything but a finite number of at least 0 seconds, nothing is
/// measured: seconds and spent_s are NaN.
Measurement measure(Operator&, const StopRule&);

}  // namespace arena
