// SPDX-License-Identifier: GPL-2.0-or-later
// Traces from nothing but a seed: arrivals, models, sizes, accounts, priorities, time limits. For
// machines without recorded traces, and for loads that no recorded trace has.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/inputs.h"

namespace arena::sim {

inline constexpr double day_s = 86400;

struct GeneratorOptions {
    std::int64_t jobs = 1000;  ///< 1..10^7
    double load = 0.9;         ///< GPU-seconds asked for per GPU-second of the cluster, > 0
    bool diurnal = false;      ///< rate follows a day: 1 + 0.8 sin; else Poisson
    std::vector<std::pair<std::string, double>> accounts;  ///< name and share of the jobs
    std::int64_t priorities = 1;                           ///< levels 0..n-1, equally likely
    double odd_share = 0.1;  ///< of jobs that ask for 3, 6, 12 or 24 GPUs
    double median_s = 3600;  ///< run time as requested: log-normal
    double sigma = 1.5;
    std::int64_t iteration_divisor = 5;  ///< num_iteration = iterations x this
    std::uint64_t seed = 1;
    std::vector<TraceJob> mix;  ///< jobs are drawn from these when not empty (model, size, work)
                                ///< and ask for GPU types such that all have the load
};

/// Jobs with run times known from the table, so that load and time limits (1 to 5 times the truth)
/// mean what they say. Errors: no row of the table is usable on the cluster.
Result<std::vector<TraceJob>> generate_trace(const Cluster&, const Throughputs&,
                                             const GeneratorOptions&);

}  // namespace arena::sim
