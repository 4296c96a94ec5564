// SPDX-License-Identifier: GPL-2.0-or-later
// What an array needs of a device's memory: buffers for the states of B members (the next one is
// fetched while one runs), the stage input of each member in flight, because activations are
// computed anew before a backward block, and what the running block needs besides. From it: how
// many members may be in flight, and how many an array may have.
#pragma once

#include <cstdint>
#include <vector>

#include "array/schedule.h"

namespace arena::array {

using Bytes = std::int64_t;
inline constexpr Bytes most_bytes = Bytes{1} << 50;  ///< of any amount

/// By job and stage.
using ByteTable = std::vector<std::vector<Bytes>>;

struct MemoryNeeds {
    ByteTable state;           ///< parameters, gradients' and optimiser's state
    ByteTable checkpoint;      ///< input of the stage, kept from forward to backward
    ByteTable working;         ///< activations computed anew and gradients of the running block
    std::vector<Bytes> fixed;  ///< by device: context and the public skeleton
    int buffers = 2;           ///< states that a device holds at once, >= 1
};
/// Errors: tables of another shape than the instance, an amount that is not 0 to most_bytes.
Status check_needs(const Instance& instance, const MemoryNeeds& needs);

/// By device: the most bytes in use at any moment of the schedule. Buffers are made once, each for
/// the largest state of the device.
std::vector<Bytes> peak_bytes(const Instance& instance, const Schedule& schedule,
                              const MemoryNeeds& needs);
/// By device: what any schedule with that in-flight cap (0: none) needs at most; peak_bytes() never
/// exceeds it. fixed + buffers x max state + the largest checkpoints in flight + max working.
std::vector<Bytes> bytes_needed(const Instance& instance, const MemoryNeeds& needs,
                                int in_flight_cap);

/// The largest in-flight cap with which all devices fit, 0 where no cap is needed. Errors (code
/// no): not even one in flight fits, and on which device.
Result<int> in_flight_cap(const Instance& instance, const MemoryNeeds& needs,
                          const std::vector<Bytes>& capacity);
/// How many of the jobs, from the first on, fit with all of them in flight, and with all states
/// twice in the host's (pinned) memory; 0: not even one. Never less with more capacity.
int array_size(const Instance& instance, const MemoryNeeds& needs,
               const std::vector<Bytes>& capacity, Bytes host_capacity);

}  // namespace arena::array
