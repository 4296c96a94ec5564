// SPDX-License-Identifier: GPL-2.0-or-later
// Several sibling runs on one pipeline (ArrayPipe): each rank is a stage, and runs the members'
// blocks in the order of a schedule, so that one's blocks fill the other's bubbles. Every member is
// trained exactly as it would be alone. Rounds of a few iterations overlap; between two of them
// members join, leave, are saved, and the schedule is made anew.
#pragma once

#include <atomic>
#include <functional>

#include "array/schedule.h"
#include "train/comm/comm.h"
#include "train/core/device.h"
#include "train/core/pipeline.h"
#include "train/members/member_source.h"

namespace arena::train {

struct ArrayOptions {
    TrainPlan plan;  ///< of its layout pp alone; stages and recomputation
    ArrayLimits limits;
    int threads = 1;     ///< of each rank
    Index buffers = 0;   ///< states on a device; 0: at home where memory is the host's, else 2
    double solve_s = 1;  ///< of a search for a schedule, at each change
    double idle_s = 60;  ///< it ends after so long without members
    /// About so long members join and leave apart: at least, and at most where a pipeline that runs
    /// empty between two rounds would cost more than a fiftieth.
    double round_s = 1, longest_round_s = 10;
    const std::atomic<bool>* told = nullptr;  ///< to leave: all members are saved and end
    /// For tests: a round's order of so many members and iterations, in place of the schedule's.
    std::function<array::Order(Index members, Index iterations)> order = {};
};
/// Refuses plans of more than one rank per stage.
Status check_array(const ArrayOptions&);

/// What a rank says of an array that has ended.
struct ArrayEnd {
    bool told = false;  ///< it was told to
    Index rounds = 0, iterations = 0;
    double seconds = 0;    ///< of rounds whose members were all measured before
    double predicted = 0;  ///< of these, by their schedules
};

/// One rank of it, in the order of stages, until it ends. `source`: on rank 0, else nullptr.
/// Collective.
ArrayEnd run_array(const ArrayOptions&, Comm& world, const DeviceMaker&, MemberSource* source);

}  // namespace arena::train
