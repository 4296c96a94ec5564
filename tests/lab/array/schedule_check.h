// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a schedule holds, and schedules as files have them. The checker trusts nothing of how a
// schedule was made.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "array/schedule.h"

namespace arena::array {

/// The makespan, if the schedule holds for `instance` (see under()) and rules. Errors (code no):
/// which block starts before what. Blocks that take no time may run in any order at their start (of
/// more than six at once on a device, the order of jobs is tried only).
Result<Ticks> check_schedule(const Instance& instance, const Rules& rules,
                             std::span<const Ticks> start);

/// A schedule as files have it.
struct PlacedBlock {
    int job = 0, stage = 0;
    bool backward = false;
    std::int64_t start = 0;
    bool operator==(const PlacedBlock&) const = default;
};
std::vector<PlacedBlock> placed_blocks(const Instance& instance, const Schedule& schedule);
/// By block of the instance. Errors (code no): a block that there is not, twice, or missing.
Result<std::vector<Ticks>> starts_of(const Instance& instance, std::span<const PlacedBlock> placed);

/// "job 3 stage 1 backward".
std::string name_of(const Block& block);

}  // namespace arena::array
