// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/list_rule.h"

#include <tuple>

#include "array/line.h"

namespace arena::array {

Order list_order(const Instance& instance, const Rules& rules, Prefer prefer) {
    std::vector<std::int64_t> total(static_cast<std::size_t>(instance.jobs), 0);
    for (const Block& block : instance.blocks)
        total[static_cast<std::size_t>(block.job)] += block.hold;
    Line line(instance, rules);
    const auto key = [&](int job) {
        const bool preferred = line.next(job).backward == (prefer == Prefer::backward);
        return std::tuple(line.earliest_start(job), !preferred,
                          -total[static_cast<std::size_t>(job)], job);
    };
    Order order;
    while (order.size() < instance.blocks.size()) {
        int best = -1;
        for (int j = 0; j < instance.jobs; ++j)
            if (line.has_next(j) && line.may_go(j) && (best < 0 || key(j) < key(best))) best = j;
        if (best < 0) return one_by_one(instance);
        line.append(best);
        order.push_back(best);
    }
    return order;
}

}  // namespace arena::array
