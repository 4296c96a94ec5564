// SPDX-License-Identifier: GPL-2.0-or-later
// arena-train as an array that trains members (--array-serve), and as a member that is trained by
// one (ARENA_ARRAY): between the command line and train/array, train/members.
#pragma once

#include "train/array/array_executor.h"
#include "train/members/attach.h"
#include "train/run/trainer.h"

namespace arena::train {

/// From the command line.
struct ArrayFlags {
    std::string serve;  ///< where members attach; "" = this is no array
    Index buffers = 0, members = 64;
    double idle_s = 60, solve_s = 1;
};

/// One rank of an array of this model and plan, until it ends. Its members are told_to_leave with
/// it. Collective; errors have their sentence on one rank.
Result<ArrayEnd> serve_array(const TrainOptions&, const ArrayFlags&, Comm& world,
                             const DeviceMaker&);

/// What the environment says of the array: ARENA_ARRAY, ARENA_ARRAY_KEY.
Result<Attachment> find_array(const Environment&);
/// A run as a member of an array; `batch`: samples of a step. ARENA_ARRAY_MEMBER says its place.
/// Paths become absolute.
Result<MemberOptions> member_of(const TrainOptions&, Index batch, const Environment&);
/// Exit code; what the array says goes to stdout, the log and stderr.
int run_member(const Attachment&, const MemberOptions&, const std::string& log, bool quiet);

}  // namespace arena::train
