// SPDX-License-Identifier: GPL-2.0-or-later
// The constants of policy `arena`, each with its meaning. What one is worth: doc/policies.md.
#pragma once

#include <cstdint>

namespace arena {

struct ArenaRules {
    // Value of an offer, objective jct: jobs that end much sooner than this are much alike, as are
    // all that need longer than that.
    double soon_s = 7200, far_s = 360000;

    /// A change of a running job is charged with so many restarts over the time left (it may cause
    /// others), and with so many over the job's age per start: who was moved often is soon moved
    /// again. Growth on idle GPUs moves nobody else, and is charged with less.
    double charged_restarts = 25, growth_restarts = 10;
    /// Starts that cost a job nothing later on, and the age that a younger one is taken to have.
    std::int64_t free_starts = 2;
    double least_age_s = 1800;

    /// A running job's current offer counts this much more than another one of its GPU type, and
    /// the latter as much more than one of another type: the first where nobody waits, the second
    /// where this share of the jobs does or more.
    double least_bonus = 1.08, most_bonus = 1.38, crowded_share = 0.15;
    /// Every offer of a running job counts this much more than those of waiting jobs, and more
    /// still, up to twice, when it ends within about this time: who is nearly done is not worth two
    /// restarts.
    double momentum = 1.5, nearly_done_s = 3000;
    /// Idle GPUs are taken by running jobs that they finish by this factor sooner.
    double grow_factor = 1.1;

    /// Appointed times: while no GPU is idle and few wait (no more than this share of those that
    /// run), a long job changes its GPUs, or starts again, only at its appointed times
    /// (appointed.h). Between them it may only be stopped: bursts of arrivals otherwise shrink long
    /// jobs step by step, and every gap starts them for seconds. Their period is near this share of
    /// the work that the job had left at its start.
    double few_waiting_share = 0.15;
    double period_share = 0.1, shortest_period_s = 1024, longest_period_s = 8192;

    /// Objective fairness: speed counts by this power of the slow-down so far.
    double fairness_power = 4;
    /// Shares: so often is the choice made anew with accounts' values times what they lack, at most
    /// this.
    int share_rounds = 8;
    double most_share_factor = 1e4;
    /// Of the highest priority present; the lowest has 1.
    double most_priority_weight = 4;

    /// A job that waits longer goes first, each time that it was started already later by as much,
    /// at most thus often; and then it keeps its GPUs for a while: more such jobs than GPUs would
    /// only start each other anew.
    double starving_s = 7 * 86400, most_starving_bounds = 4, starving_quantum_s = 3600;
    double starving_weight = 1e6;
    /// A job for which enough GPUs are free, but scattered, waits for the next ones as long as that
    /// was first expected to take, and so much longer; then it takes what it can get.
    double patience_s = 600;

    /// Foresight: what counts for the price of a GPU-second beside the jobs behind (how many waited
    /// over so long, and how many run), and what an idle GPU costs of it.
    double lately_share = 0.5, lately_s = 12 * 3600, running_share = 0.1, idle_share = 0.5;
    /// How far costs may be off because the times are: of choices for life that cost no more, the
    /// one with the fewest GPUs.
    double estimate_error = 0.05;
    /// A choice for life beside elastic jobs costs no more than this times the least.
    double most_over = 1.05;
    /// Choices that are tried on the nodes that are free now, before the job is left to chance.
    int most_tries = 6;

    /// Attempts to seat a choice on nodes, and how much better another one must be.
    int reseatings = 3;
    double better_seating = 1.01;
};

}  // namespace arena
