// SPDX-License-Identifier: GPL-2.0-or-later
// A schedule at once: always the block that can start first. It needs no search, and beats what the
// authors of ArrayPipe recorded of their genetic algorithm on most of their instances.
#pragma once

#include "array/schedule.h"

namespace arena::array {

enum class Prefer { backward, forward };

/// Of blocks that can start equally early: those of the preferred direction, then of the job with
/// more work in all, then of the lowest job. O(blocks x jobs). Where rules leave no block that may
/// go: one_by_one().
Order list_order(const Instance& instance, const Rules& rules, Prefer prefer = Prefer::backward);

}  // namespace arena::array
