// SPDX-License-Identifier: GPL-2.0-or-later
// What a member of an array may choose for itself: everything but the model and the plan, which
// siblings share.
#pragma once

#include <string>

#include "train/core/data.h"
#include "train/core/optimizer.h"
#include "train/core/shape.h"

namespace arena::train {

struct MemberOptions {
    Index member = 0;  ///< its place in the job array; no two attached members have the same
    GptShape shape;
    OptimizerOptions optimizer;
    Index batch = 1;   ///< samples of a step
    std::string data;  ///< absolute, as the ranks of the array see it
    TokenWidth width = TokenWidth::u8;
    std::uint64_t seed = 1;
    Index steps = 0;          ///< the member ends when so many are done, over all its lives
    std::string checkpoints;  ///< absolute, exists; "" = none is read or written
    Index save_every = 0;     ///< steps; 0 = at the end and when told to leave
    int requeue_code = 99;    ///< exit code of one that was told to leave and is saved
};

/// What an array holds its members to.
struct ArrayLimits {
    GptShape shape;
    Index batch = 1;     ///< largest of a member
    Index members = 64;  ///< at once
};
/// Refuses another model, a tied one, clipping (updates come just in time, before the norm of all
/// gradients is known), and a batch beyond the limit.
Status check_member(const MemberOptions&, const ArrayLimits&);

}  // namespace arena::train
