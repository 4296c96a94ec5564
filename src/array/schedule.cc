// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/schedule.h"

#include "array/line.h"

namespace arena::array {

namespace {

constexpr Ticks missing = -1;

}  // namespace

Order one_by_one(const Instance& instance) {
    Order order;
    order.reserve(instance.blocks.size());
    for (const Block& block : instance.blocks) order.push_back(block.job);
    return order;
}

Result<Schedule> append(const Instance& instance, const Rules& rules, const Order& order) {
    Line line(instance, rules);
    Schedule schedule{std::vector<Ticks>(instance.blocks.size(), missing), 0, {}};
    const bool whole = append_in_order(line, rules, order, [&](std::size_t block, Ticks start) {
        schedule.start[block] = start;
        schedule.order.push_back(instance.blocks[block].job);
    });
    if (!whole) return no_error("blocks are left that the rules let never go in this order");
    schedule.makespan = line.makespan();
    return schedule;
}

std::vector<std::size_t> blocks_in_order(const Instance& instance, const Schedule& schedule) {
    std::vector<std::size_t> next(instance.first.begin(), instance.first.end() - 1), blocks;
    for (const int job : schedule.order) blocks.push_back(next[static_cast<std::size_t>(job)]++);
    return blocks;
}

}  // namespace arena::array
