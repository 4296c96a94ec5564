// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `fcfs`: see fcfs.h.
#include "baselines/fcfs.h"

namespace arena {

Decision decide_fcfs(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options) {
    const Problem problem(snapshot, offers, options, Scope::requests);
    Packing packing(problem);
    Decision decision;
    std::vector<bool> blocked(problem.types(), false);
    std::size_t open = problem.types();  // not blocked
    Placement placement;
    for (const std::size_t i : waiting_in_order(problem)) {
        if (open == 0 && !options.explain) break;
        const Task& task = problem.tasks()[i];
        const std::int32_t asked = problem.requested(task);
        if (asked < 0) {
            if (options.explain)
                decision.waiting.emplace(task.job->id, "asked for nothing on offer");
            continue;
        }
        const Choice& choice = problem.choice(asked);
        const auto type = static_cast<std::size_t>(choice.type);
        if (!blocked[type] && packing.place(task, choice, placement)) {
            decision.actions.push_back(action_for(task, placement, "first in line and fits"));
            continue;
        }
        if (options.explain) {
            decision.waiting.emplace(task.job->id, blocked[type]
                                                       ? "a job ahead waits for this GPU type"
                                                       : "not enough GPUs free now");
        }
        if (!blocked[type]) --open;
        blocked[type] = true;
    }
    return decision;
}

}  // namespace arena
