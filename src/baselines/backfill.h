// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `backfill`: EASY (Lifka, 1995) per GPU type on the users' time limits, as Slurm does it
// today: the first job that does not fit gets a reservation, later ones start if they do not delay
// it.
#pragma once

#include "core/decision.h"
#include "policy/policy.h"

namespace arena {

/// As decide_fcfs(), but behind the first blocked job of a type others start when they fit now and
/// either end (by their limit) before its reservation or use GPUs that it leaves over. The
/// reservation counts GPUs, not nodes. A running job ends at start_s + time_limit_s. O(jobs log
/// jobs + nodes + offers).
Decision decide_backfill(const Snapshot&, const Offers&, const PolicyOptions&);

}  // namespace arena
