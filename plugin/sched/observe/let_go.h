// SPDX-License-Identifier: GPL-2.0-or-later
// From acting to observing: the jobs that an acting Arena still holds become ordinary ones, with
// the fewest GPUs that a plan fits on. What is not planned yet waits for the next round. A profile
// run that waits for its GPU is cancelled; one that has begun ends by itself, and its numbers
// count.
#pragma once

#include "plugin/sched/round/books.h"

namespace arena {

/// slurms: the cluster as Slurm has it; `slurm` lets the jobs go.
void let_go(const ClusterView& slurms, Books& books, Host& slurm);

}  // namespace arena
