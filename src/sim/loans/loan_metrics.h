// SPDX-License-Identifier: GPL-2.0-or-later
// What lending did in a simulation.
#pragma once

#include <cstdint>
#include <vector>

namespace arena::sim {

struct LoanMetrics {
    /// Servers of inference, from a time until the next.
    struct Moment {
        double time_s = 0;
        std::int64_t needed = 0, lent = 0, returning = 0;
    };
    bool lend = false;
    std::int64_t inference_servers = 0, inference_gpus = 0;
    double inference_gpu_s = 0;  ///< that inference used, of its own servers that it had
    double lent_gpu_s = 0;       ///< that training could use
    std::int64_t loans = 0, servers_lent = 0, reclaims = 0, servers_returned = 0;
    std::int64_t late_returns = 0;                ///< servers that were back after their deadline
    std::int64_t preemptions = 0, scaled_in = 0;  ///< jobs, by reclaims
    std::int64_t let_end = 0;     ///< jobs that a reclaim let run, for they were to end in time
    std::int64_t overstayed = 0;  ///< of them, those that did not, and had to move
    std::int64_t least_preemptions = 0;  ///< that the reclaims needed, by their bounds
    double short_server_s = 0;  ///< server-seconds that inference needed, had, and had lent
    double short_late_s = 0;    ///< seconds with such a server missing beyond the deadline
    double unmet_server_s = 0;  ///< server-seconds needed beyond all that inference has
    double usage_both = 0;      ///< GPU time used by jobs and inference / all GPU time
    double usage_training = 0;  ///< GPU time held by jobs / GPU time of training's own nodes
    std::vector<Moment> moments;
};

}  // namespace arena::sim
