// SPDX-License-Identifier: GPL-2.0-or-later
// A schedule of an instance: when each block starts. It is made from an order in which blocks are
// appended to their devices, each as early as it can; every semi-active schedule has such an order.
// The checker trusts nothing of how a schedule was made.
#pragma once

#include <span>
#include <vector>

#include "array/instance.h"

namespace arena::array {

/// Jobs, each as often as it has blocks: the n-th time is its n-th block.
using Order = std::vector<int>;

struct Schedule {
    std::vector<Ticks> start;  ///< by block of the instance
    Ticks makespan = 0;        ///< when the last device is free
    Order order;               ///< append() makes it from this one
    bool operator==(const Schedule&) const = default;
};

/// One that works whenever any does with as many blocks in flight: job by job.
Order one_by_one(const Instance& instance);

/// Appends block by block, in O(blocks) without rules. Where rules forbid a job's next block, those
/// after it go first. Errors (code no): the order ends with blocks that may never go.
Result<Schedule> append(const Instance& instance, const Rules& rules, const Order& order);
/// Indices of blocks in the schedule's order: on each device as they run there.
std::vector<std::size_t> blocks_in_order(const Instance& instance, const Schedule& schedule);

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
