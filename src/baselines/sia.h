// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `sia` (Jayaram Subramanya et al., SOSP 2023): one configuration (GPU type x count) per job
// from a matrix of goodputs, each row normalised by its least, through a concave power, summed;
// running jobs' other configurations are discounted by what restarting them has cost so far.
// Repaired against the Arena artifact's port: the restart factor favours the current configuration
// (there it multiplied all alike), running jobs scale (there they never did), throughput is that of
// the offer (no thr / 2n). Our own knapsack stands for the integer programme; our jobs keep their
// batch, so goodput is throughput.
#pragma once

#include "core/decision.h"
#include "policy/policy.h"

namespace arena {

/// A job starts with its fewest GPUs of a type and at most doubles per round. Every job placed adds
/// a reward larger than what any other could gain by growing, running ones a little more: nobody is
/// stopped for another's growth. A job that is not elastic has as many GPUs as it asked for, of any
/// type.
Decision decide_sia(const Snapshot&, const Offers&, const PolicyOptions&);

/// Not published: the same matrix, powers and starts with each row divided by the work left instead
/// of the reward, so that it knows what policy `arena` knows.
Decision decide_sia_informed(const Snapshot&, const Offers&, const PolicyOptions&);

}  // namespace arena
