// SPDX-License-Identifier: GPL-2.0-or-later
// What no schedule can beat: the longest chain, and for each device the preemptive one-machine
// problem (Jackson's rule) over its blocks with heads and tails, each with the switch that it must
// pay in front of it.
#pragma once

#include <vector>

#include "array/instance.h"

namespace arena::array {

/// A block on one machine, which it holds from some start >= head; `tail` follows when it ends.
struct Window {
    Ticks head = 0;  ///< may be below 0: a switch before a device's first block
    Ticks hold = 0;
    Ticks tail = 0;
};
/// Least makespan of the windows if they could be interrupted. Reorders them. O(n log n).
Ticks one_machine_bound(std::vector<Window>& windows);

/// What follows from the chain of each block alone.
struct ChainFacts {
    std::vector<Ticks> tail;  ///< from the block's start to the end of all that follows it
    std::vector<Ticks> gap;   ///< of a backward block: least time that its device stands still
                              ///< between the forward block of its state and itself, if nothing
                              ///< else runs there in between; of a forward block: its setup
};
ChainFacts chain_facts(const Instance& instance);

/// Of the whole instance; the in-flight cap and forward-first can only raise the makespan above it.
Ticks lower_bound(const Instance& instance);

}  // namespace arena::array
