// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `arena-paper`: the published Arena search (EuroSys 2026 artifact, policy "crius") with its
// mistakes mended: first in, first out; a job that does not fit makes room by halving others or
// changing their GPU type, to a bounded depth; then the best upgrades of running jobs. Repaired:
// speeds are relative to the request (not samples/s, which favours light models), a change pays for
// its restart, changing a type counts once, an infeasible step is no step (two of them cancelled),
// each level of the search is expanded once, pending jobs and upgrades are tried in every round.
// Left out: bubble migration and locality (our packing takes any equal layout, which runs equally
// fast).
#pragma once

#include "core/decision.h"
#include "policy/policy.h"

namespace arena {

/// A job that starts before an older waiting one is opportunistic: it is stopped when its GPUs let
/// that one start. The gain of a plan is the sum of relative speeds, less what restarts cost over
/// the horizon of two hours. Bounded by search_steps.
Decision decide_arena_paper(const Snapshot&, const Offers&, const PolicyOptions&);

/// Not published: the same search with speeds divided by the work left, shortest job first.
Decision decide_arena_paper_informed(const Snapshot&, const Offers&, const PolicyOptions&);

}  // namespace arena
