// SPDX-License-Identifier: GPL-2.0-or-later
// A schedule of an instance: when each block starts. It is made from an order in which blocks are
// appended to their devices, each as early as it can; every semi-active schedule has such an order.
#pragma once

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

}  // namespace arena::array
