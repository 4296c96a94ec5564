// SPDX-License-Identifier: GPL-2.0-or-later
// Orders that people use without a search, to hold ours against.
#pragma once

#include "array/schedule.h"

namespace arena::array {

/// All forward blocks, jobs from the first on; then all backward ones, jobs from the last on.
Order gpipe_order(const Instance& instance);

/// What the devices do until the makespan, as shares of devices x makespan; they add up to 1.
struct Breakdown {
    double forward = 0, backward = 0;  ///< backward: with recomputation and update
    double switching = 0;              ///< setups that were paid
    double bubble = 0;
};
Breakdown breakdown(const Instance& instance, const Schedule& schedule);

}  // namespace arena::array
