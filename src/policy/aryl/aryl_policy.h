// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `aryl`: base demands first, the shortest job first; then what is left to elastic jobs by
// what it saves of their time (Aryl's two phases), on offers in place of linear speed-up. Jobs
// stand on own nodes first; what elastic jobs have beside their base goes to lent nodes, so that
// these come back without preempting anybody. Leaves out: shares of accounts, who wins a reclaim
// (policy/loans), and any memory between rounds.
#pragma once

#include "core/decision.h"
#include "policy/policy.h"

namespace arena {

/// The constants, each with its meaning.
struct ArylRules {
    /// The base of an elastic job whose request names no range: this share of the GPUs asked for.
    double base_share = 0.5;
    /// On another GPU type a job's base is the fewest GPUs that are about as fast; it goes there
    /// only if it is not slower than by the second factor.
    double about_as_fast = 1.1, slowest = 1.5;
    /// A running job's change counts as so many restarts.
    double charged_restarts = 2;
    /// A job that got its GPUs less than this ago changes only to make room.
    double settle_s = 600;
    /// A job that waits longer than this many times its run, and than the seconds, goes first, and
    /// while it finds no GPUs of its type nobody behind it starts on any.
    double age_factor = 10, least_age_s = 7200;
};

/// Base: what the user asked for; of an elastic job base_share of it, within its range; without a
/// request the choice of the least GPU time. Phase 1 admits waiting jobs by their run time at the
/// base, whole or not at all, skipping what does not fit; GPUs that running elastic jobs have
/// beside their base count as free. Phase 2 is an exact knapsack per GPU type (two_phase.h): a step
/// is worth the time it saves, restarts charged. Then best fit, the most GPUs first; what finds no
/// nodes takes a smaller step, keeps what it has, or waits.
///
/// Waiting jobs at the front are reserved for as under `arena` (options.reserve_depth).
/// options.objective, shares and search_steps have no meaning here. O(jobs log jobs + knapsack).
Decision decide_aryl(const Snapshot&, const Offers&, const PolicyOptions&);
/// With other constants than its own.
Decision decide_aryl(const Snapshot&, const Offers&, const PolicyOptions&, const ArylRules&);

}  // namespace arena
