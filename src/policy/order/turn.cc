// SPDX-License-Identifier: GPL-2.0-or-later
// See turn.h.
#include "policy/order/turn.h"

#include <algorithm>

namespace arena {

Turn::Turn(const Problem& problem) {
    const SlurmOrder order = order_of(problem.snapshot(), problem.options().priority_step);
    keeping = keep_promises(problem, order);
    const std::uint32_t highest = std::min(order.steps, step_levels + 1) - 1;
    for (const Task& task : problem.tasks()) {
        const std::size_t j = problem.job_of(task);
        place.push_back(order.place[j]);
        level.push_back(task.runs() ? highest : highest - std::min(order.step[j], highest));
    }
}

std::optional<Turn> turn_of(const Problem& problem) {
    if (problem.options().order != QueueOrder::priority || problem.tasks().empty())
        return std::nullopt;
    return Turn(problem);
}

}  // namespace arena
