// SPDX-License-Identifier: GPL-2.0-or-later
// The third stage of a round: what was chosen by count, on nodes. Tries several assignments
// (assignment.h), searches all ways of few jobs (exhaustive.h), and lets running jobs take what is
// idle then.
#pragma once

#include "policy/arena/assignment.h"
#include "policy/arena/choose.h"
#include "policy/arena/price.h"

namespace arena {

/// The assignment keeps references to the prices.
Assignment place(const Problem&, const Packing&, const Prices&, const Worth&, Selection);
/// Running jobs that keep their GPUs move to idle ones: nobody else wants them, so no bonus need
/// protect anybody.
void grow(const Problem&, const Worth&, const ArenaRules&, Assignment&);

}  // namespace arena
