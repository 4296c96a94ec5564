// SPDX-License-Identifier: GPL-2.0-or-later
// Saving and resuming a run, collective over all its ranks. Rank 0 gathers one tensor at a time and
// writes. Each array is read, and checked as it is read, by one rank of the stages that hold it,
// which gives it to the others: no file is read twice (but for a tied table, which two stages
// hold).
#pragma once

#include <optional>
#include <string>

#include "train/checkpoint/checkpoint_file.h"
#include "train/comm/comm.h"
#include "train/core/optimizer.h"
#include "train/core/pipeline.h"

namespace arena::train {

/// What of a run a checkpoint is made of. References live as long as the call.
struct RunState {
    const TrainPlan& plan;
    Place place;
    Parameters& parameters;
    Moments& moments;
    Comm& world;
};

/// Writes DIR/step-N.arena and removes older ones but `kept`, the path of the one that this run
/// resumed from or wrote before ("" = none), which becomes the new one's: see
/// remove_old_checkpoints(). The same answer on all ranks.
Status save_checkpoint(const std::string& directory, const CheckpointFacts&, const RunState&,
                       std::string& kept);

struct Resumed {
    Index step = 0;  ///< steps done; 0 = there is no checkpoint
    std::string path;
    std::string passed_by;  ///< why a newer one was not used; "" = there is none
};
/// Loads the newest checkpoint of `wanted` (its step is ignored) that is whole. An error when it is
/// of another model or run, or when there are some and none is whole: then weights and moments are
/// of no use. The same answer on all ranks.
Result<Resumed> resume(const std::string& directory, const CheckpointFacts& wanted,
                       const RunState&);

/// A failure of one rank is everybody's: that of the lowest rank, with its sentence there and
/// without it on the others, so that it is printed once.
Status agree(Comm& world, const Status& mine);

}  // namespace arena::train
