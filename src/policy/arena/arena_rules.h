// SPDX-License-Identifier: GPL-2.0-or-later
// The constants of policy `arena`, each with its meaning. What one is worth: doc/policies.md.
#pragma once

#include <cstdint>

namespace arena {

struct ArenaRules {
    /// Value of an offer, objective jct: jobs that end much sooner than short_s are valued as one,
    /// as are all that need longer than long_s. And so are, when a change is charged to their age,
    /// all that are much younger: who gave way soon after its start grows again when GPUs come
    /// free.
    double short_s = 7200, long_s = 360000;

    /// A change of a running job is charged with so many restarts over the time left (it may cause
    /// others), and with so many over the job's age per start: who was moved often is soon moved
    /// again. Growth on idle GPUs moves nobody else, and is charged with less over the age.
    double charged_restarts = 25, growth_restarts = 10;
    /// Starts that cost a job nothing later on.
    std::int64_t free_starts = 2;

    /// A running job's current offer counts this much more than another one of its GPU type, and
    /// the latter as much more than one of another type: the first where nobody waits, the second
    /// where more than few do.
    double least_bonus = 1.08, most_bonus = 1.38;
    /// Few wait: no more than this share of all jobs, or, for appointed times, of those that run.
    double few_waiting_share = 0.15;
    /// Every offer of a running job counts this much more than those of waiting jobs.
    double momentum = 1.5;
    /// Idle GPUs are taken by running jobs that they finish by this factor sooner.
    double grow_factor = 1.1;

    /// The seconds that nodes boot, of all of them together, are charged to the time left of a job
    /// that wakes them: once on an empty cluster, and the more often, by the square, the larger the
    /// share of the GPUs is that is in use; so often where all are. Whoever wakes nodes of a full
    /// cluster soon has to give them up, or others would have left theirs to it.
    double crowded_boots = 100;

    /// Appointed times: while no GPU is idle and few wait, a long job changes its GPUs, or starts
    /// again, only at its appointed times, each the power of two below this share of the work that
    /// it had left at its start (appointed.h). Between them it may only be stopped: bursts of
    /// arrivals otherwise shrink long jobs step by step, and every gap starts them for seconds.
    double period_share = 0.1;

    /// Objective fairness: speed counts by this power of the slow-down so far.
    double fairness_power = 4;
    /// Shares: so often is the choice made anew with accounts' values times what they lack.
    int share_rounds = 8;
    /// Of the highest priority present; the lowest has 1.
    double most_priority_weight = 4;

    /// A job that waits longer goes first, each time that it was started already later by as much,
    /// at most thus often; and then it keeps its GPUs for a while: more such jobs than GPUs would
    /// only start each other anew.
    double starving_s = 7 * 86400, most_starving_bounds = 4, starving_quantum_s = 3600;
    double starving_weight = 1e6;

    /// Foresight: as many jobs will come as waited on average over so long; and what an idle GPU
    /// costs of the price of another.
    double lately_s = 12 * 3600, idle_share = 0.5;
    /// How far costs may be off because the times are: of choices for life that cost no more, the
    /// one with the fewest GPUs; beside elastic jobs, any of them.
    double estimate_error = 0.05;
};

}  // namespace arena
