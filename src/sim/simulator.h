// SPDX-License-Identifier: GPL-2.0-or-later
// An event-driven cluster that drives decide() as the Slurm adapter does: arrivals, completions and
// periodic rounds; exact progress, the same restart cost for every policy. Deterministic by seed
// but for the wall-clock numbers. Leaves out node failures and the time of the decisions
// themselves.
#pragma once

#include <functional>
#include <limits>
#include <optional>

#include "base/result.h"
#include "policy/order/promises.h"
#include "sim/loans/lending.h"
#include "sim/metrics.h"
#include "sim/slow/slowdowns.h"
#include "sim/workload.h"

namespace arena::sim {

struct SimulationOptions {
    double round_s = 300;      ///< longest time between decisions while jobs are there, > 0
    double min_gap_s = 0.5;    ///< shortest time between decisions, >= 0
    bool only_events = false;  ///< no decisions but on arrivals and ends: see Policy::only_events
    double max_time_s = std::numeric_limits<double>::infinity();  ///< end of the simulation
    PlacementRule placement = PlacementRule::nodes;
    Errors errors;
    /// Of the jobs: the others keep the GPUs they start with until they end.
    double elastic_share = 1;
    /// Jobs of unknown models are Slurm's to start, not the policy's: JobState::ordinary.
    bool ordinary = false;
    /// Policies see no job's work but its time limit, 1 to 5 times its run where the trace states
    /// none.
    bool work_unknown = false;
    PromiseRules promises;  ///< with order priority
    /// Priorities follow from Workload::shares and from what accounts held so far, as Slurm's fair
    /// share without decay, in place of the trace's.
    bool priority_by_shares = false;
    /// What each start and change of GPUs really costs, where that is not what policies are told.
    std::optional<double> true_restart_s = {};
    bool measures_moves = false;       ///< policies know what each job's own moves took
    PolicyOptions policy;              ///< restart cost, objective, search steps
    std::optional<LoanOptions> loans;  ///< inference beside the cluster; policies see what it lends
    std::vector<Slowdown> slowdowns;   ///< of the workload's nodes, by start
    SlowdownOptions slowdown;
    bool ignore_network = false;  ///< policies know nothing of switches and racks
    bool keep_stays = false;
    std::int64_t max_decisions = std::numeric_limits<std::int64_t>::max();
    std::function<void(double now_s, std::size_t ended, std::size_t jobs)>
        progress;  ///< may be empty
    /// Sees every decision with its arguments before it is applied; for tests. May be empty.
    std::function<void(const Snapshot&, const Offers&, const PolicyOptions&, const Decision&)>
        watch;
};

/// Runs until all jobs have ended, or max_time_s. Jobs submitted at or after max_time_s do not
/// count.
///
/// A decision's GPUs change hands at once; every change of a job's GPU set, the first included,
/// then costs it RestartCost::seconds() without progress. An error with code environment says that
/// the policy broke the contract of policy.h, or that it leaves jobs waiting on an idle cluster for
/// ever; one with code usage that the inference curve does not fit the cluster.
Result<Metrics> simulate(const Workload&, std::string_view policy_name, const PolicyFunction&,
                         const SimulationOptions&);

}  // namespace arena::sim
