// SPDX-License-Identifier: GPL-2.0-or-later
// Keeping promises: for each waiting job that was promised an end (JobState::due_s), nodes are held
// from the latest start that keeps it. A policy that leaves these nodes to jobs that are gone or
// give way by then may decide everything else as it likes.
#pragma once

#include <vector>

#include "policy/holds.h"
#include "policy/order/steps.h"

namespace arena {

/// What the promises ask of a round.
struct Keeping {
    Holds holds;
    /// By task: it waits, and must start now, with a choice that ends in time, whoever has to give
    /// way; or it runs, and stopping it now would break what it was promised. So it is with one
    /// that ends too late already, but for a job before it that must start now: what waits with a
    /// lost promise starts as soon as it can, and would be stopped and started by turns.
    std::vector<bool> now;
    /// By choice, all tasks one after the other: it ends too late, or as late as can be.
    std::vector<bool> late;
};

/// Each job, in Slurm's order, holds the nodes of the choice that may start last and ends in time
/// all the same: so others have them for longest. Where none does any more, those of the choice
/// that ends first, and at once. Elastic
/// jobs that stand behind it give way. Where that leaves a later one nothing in time, other ways
/// are tried within options.search_steps. Of more than Holds::most jobs the first hold nodes.
/// O(promised jobs x (running jobs + choices x nodes)).
Keeping keep_promises(const Problem&, const SlurmOrder&);

}  // namespace arena
