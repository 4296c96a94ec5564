// SPDX-License-Identifier: GPL-2.0-or-later
// What a simulation answers: the numbers of the contract of `arena simulate`, and on request what
// each job did, for pictures and tests.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/order/promises.h"
#include "sim/loans/loan_metrics.h"
#include "sim/power/power.h"
#include "sim/slow/slowdowns.h"

namespace arena::sim {

struct Errors;  // of workload.h

/// Percentiles: percentile() of base/statistics.h.
struct Spread {
    double mean = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};
Spread spread_of(std::vector<double> values);

/// A job's stay on one GPU set.
struct Stay {
    std::uint32_t job = 0;                        ///< index into Workload::jobs
    std::uint32_t offer = 0;                      ///< of its profile
    double from_s = 0, progress_s = 0, to_s = 0;  ///< got the GPUs; first progress; gave them back
    double iteration_s = 0;                       ///< the true one
    std::vector<std::uint32_t> nodes;
};

struct JobOutcome {
    double jct_s = 0;      ///< until its end, or the end of the simulation
    double queuing_s = 0;  ///< without GPUs
    double unfairness =
        0;  ///< JCT / JCT with an equal part of the cluster; 1 is fair, less is better
    bool finished = false;
    std::int64_t restarts = 0;
};

/// One slowdown of the simulation, and what came of it.
struct SlowOutcome {
    Slowdown slow;
    std::set<std::uint32_t> jobs = {};   ///< that it slowed; indices into Workload::jobs
    double detected_s = -1;              ///< by the first of them; below 0: by none
    std::set<std::string> answers = {};  ///< "S2", "S4"
};

struct SlowMetrics {
    std::string mode;
    std::int64_t events = 0;                ///< slowdowns that began
    std::int64_t met = 0;                   ///< of them, those that slowed a job
    std::int64_t detected = 0;              ///< by a job: once for each job and event
    std::int64_t splits = 0, restarts = 0;  ///< S2 and S4
    std::int64_t most_quarantined = 0;      ///< nodes that all jobs avoided, at one time
    double lost_gpu_s = 0;  ///< held by jobs beyond what sound devices would have taken: slower
                            ///< iterations, pauses, restarts
    std::optional<double> jct_without_s;  ///< mean JCT of the same jobs without slowdowns
    std::vector<SlowOutcome> outcomes;    ///< of those that began, by start
};

/// Starts and moves of jobs onto several nodes, and how far these were apart.
struct NetworkMetrics {
    bool racks = false;  ///< the leaves are racks, each an NVLink domain
    std::int64_t placements = 0;
    std::int64_t in_one_leaf = 0;  ///< of them
    std::int64_t leaves = 0;       ///< sum over them
    std::int64_t need_domain = 0;  ///< of them, with a plan that needs a domain
};

/// Users who lied about their work (Errors::liar_share), and the others: mean JCT, s, and what it
/// is for the same jobs where nobody lies.
struct LiarMetrics {
    std::int64_t jobs = 0;  ///< whose users lied
    double jct_s = 0, truthful_jct_s = 0;
    double honest_jct_s = 0, honest_truthful_jct_s = 0;
};

/// The same jobs under another policy: each job's JCT / its JCT there. A job that is unfinished at
/// the end counts until then, in both runs: its ratio is 1 where neither finished it, and on the
/// right side of 1 where one did.
struct Beside {
    std::string policy;                   ///< the other
    std::int64_t jobs = 0;                ///< compared: all that were submitted
    std::int64_t unfinished = 0;          ///< of them, in one run or both
    std::int64_t unfinished_in_both = 0;  ///< nothing is known of them: they count as 1
    Spread ratio;
    double above_1 = 0, above_1_1 = 0, above_2 = 0;  ///< share of the jobs later by more than that
    std::vector<double> ratios;                      ///< by job
};

struct Metrics {
    std::string policy;
    std::int64_t jobs = 0;  ///< submitted until the end of the simulation
    std::int64_t finished = 0;
    std::int64_t dropped = 0;  ///< of the trace: no usable row
    std::int64_t elastic = 0;  ///< of the jobs
    Spread jct_s, queuing_s;   ///< over all submitted jobs, censored at the end
    Spread
        finish_time_fairness;  ///< JobOutcome::unfairness of the finished jobs (Themis, NSDI 2020)
    double makespan_s = 0;     ///< last event
    double throughput_mean = 0, throughput_peak = 0;  ///< samples/s
    double normalized_throughput_mean =
        0;                       ///< mean over time of the sum of speed / speed as requested
    double gpu_utilization = 0;  ///< held GPU-seconds / (GPUs x makespan)
    std::int64_t restarts = 0;   ///< starts and changes of GPU sets of all jobs
    std::int64_t decisions = 0;
    double decision_ms_p50 = 0, decision_ms_p95 = 0, decision_ms_max = 0;
    PromiseCounts promises;  ///< with order priority
    double wall_s = 0;
    std::optional<LoanMetrics> loans;       ///< with inference beside the cluster
    std::optional<SlowMetrics> slow;        ///< where slowdowns were simulated
    std::optional<LiarMetrics> liars;       ///< where users lied
    std::optional<NetworkMetrics> network;  ///< where the cluster has leaves or racks
    std::optional<PowerMetrics> power;      ///< where nodes sleep
    std::vector<Beside> beside;             ///< where it was asked for
    std::vector<JobOutcome> outcomes;       ///< by job
    std::vector<Stay> stays;                ///< by end; only when asked for
};

/// The same jobs once with liars and once without, everything else alike.
LiarMetrics liars_of(const Errors&, const Metrics& lied, const Metrics& truthful);

/// Both runs are of the same workload, to the same time.
Beside beside_of(const Metrics& run, const Metrics& other);

/// One JSON object of the contract, without schema_version.
std::string metrics_json(const Metrics&);

}  // namespace arena::sim
