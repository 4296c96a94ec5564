// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `fifo`: jobs by Slurm priority, then submission; each takes, of the offers that fit now,
// the one with the earliest estimated finish. No job overtakes a waiting one on the nodes it waits
// for.
#pragma once

#include "core/decision.h"
#include "policy/policy.h"

namespace arena {

/// Order: priority (larger first), then submit_s, then id. Running jobs are left alone.
///
/// A job starts with the fastest offer for which enough open nodes of its node set have the GPUs,
/// CPUs and memory, on the nodes with the fewest free GPUs (then the lowest index). When none fits,
/// it waits for its fastest offer that the nodes' total GPUs could ever hold, and from then on
/// *claims* every node of its node set that could host it (GPU type, total GPUs): no job behind it
/// starts on a claimed node. So the first job in line always gets the next nodes of its type, and
/// no job starves; the price is that claimed GPUs may idle until it starts (Slurm's backfill may
/// fill them with ordinary jobs).
///
/// A waiting job gets reshape_and_wait while fewer than reserve_depth jobs ahead of it claim a node
/// that it claims too. The action says how the job should wait, each round again: one that waits so
/// already is left alone by whoever applies it, and one that no longer gets it is held again. A job
/// without offers, or whose offers no set of nodes could ever hold, claims nothing.
///
/// O(jobs x offers x nodes) time. Independent of the order of jobs and offers. See policy.h.
Decision decide_fifo(const Snapshot&, const Offers&, const PolicyOptions&);

}  // namespace arena
