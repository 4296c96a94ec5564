// SPDX-License-Identifier: GPL-2.0-or-later
// A member's process: it calls the array, says what it wants, passes on what it is told, and ends
// as the array says. An array that cannot be reached, or is gone, is no failure of the member's: it
// ends as one that was told to leave, to be started again from its last checkpoint.
#pragma once

#include <atomic>
#include <functional>

#include "train/members/address.h"
#include "train/members/frames.h"
#include "watch/wire/sealed_line.h"

namespace arena::train {

struct Attachment {
    ArrayAddress address;
    watch::WatchKey key{};
    double patience_s = 60;  ///< to reach it at first, and without a word from it
};

/// Until it ends; `leave`: it was told to.
MemberExit attach(const Attachment&, const MemberOptions&, const std::atomic<bool>& leave,
                  const std::function<void(const MemberLine&)>& tell);

}  // namespace arena::train
