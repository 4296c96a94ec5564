// SPDX-License-Identifier: GPL-2.0-or-later
// What switches really take: the state of the next member is fetched into a buffer that is free
// while another runs, over a link that the devices of a server share. Where it comes in time a
// switch is the exchange of a pointer; where it does not, the device stands still. The times depend
// on the schedule and the schedule on the times: two rounds suffice.
#pragma once

#include "array/memory.h"
#include "array/search/solve.h"

namespace arena::array {

struct PrefetchModel {
    ByteTable forward_state;    ///< fetched before a forward block: parameters
    ByteTable backward_state;   ///< before a backward one: with the optimiser's; written back after
    std::vector<int> server;    ///< by device
    double bytes_per_tick = 1;  ///< between host and the devices of a server together, > 0
    Ticks hit = 0;              ///< a switch to a state that is there
    int buffers = 2;            ///< of a device; 1: nothing is fetched while a block runs
};

/// By state: what the switch to it took at most, in this schedule. Transfers of a server go one
/// after another, by the time at which their buffer became free. A state that is still in a buffer
/// is not fetched again, but what a backward block needs more.
std::vector<Ticks> effective_switches(const Instance& instance, const Schedule& schedule,
                                      const PrefetchModel& model);
Instance with_switches(const Instance& instance, const std::vector<Ticks>& by_state);

struct PrefetchedSolution {
    Instance instance;  ///< with the switches that the schedule obeys
    Solution solution;
};
/// Begins with switches that all hit; each round solves with what the last schedule's switches
/// took, never with less. The schedule of the last round is one that the transfers can follow, or
/// its own switches are still longer: then it is stretched to them.
PrefetchedSolution solve_prefetched(const Instance& instance, const Rules& rules,
                                    const PrefetchModel& model, const SolveOptions& options,
                                    int rounds = 2);

}  // namespace arena::array
