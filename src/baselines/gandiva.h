// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `gandiva` (Xiao et al., OSDI 2018): jobs as requested, first come, first served; GPUs that
// nobody waits for are lent to running jobs, doubling by doubling, and taken back when somebody
// comes. Repaired against the Arena artifact's port: it runs at all (the constructor's call was
// broken), jobs of several nodes grow too, loans are relative speed per GPU. Left out: time slicing
// and packing two jobs on a GPU (our offers know no shared GPUs), migration to better nodes (here
// every layout runs equally fast).
#pragma once

#include "core/decision.h"
#include "policy/policy.h"

namespace arena {

/// The first job of a type that does not fit, even with all loans of the type called in, blocks its
/// type. A job grows only when that adds a tenth of its speed and it has run for half an hour as it
/// is.
Decision decide_gandiva(const Snapshot&, const Offers&, const PolicyOptions&);

/// Not published: the queue in the order of GPU time left as requested, which no job blocks.
Decision decide_gandiva_informed(const Snapshot&, const Offers&, const PolicyOptions&);

}  // namespace arena
