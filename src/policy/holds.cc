// SPDX-License-Identifier: GPL-2.0-or-later
// See holds.h.
#include "policy/holds.h"

#include <algorithm>
#include <limits>

namespace arena {

std::uint32_t Holds::outlasted_by(const Problem& problem, const Task& task, double run_s,
                                  double later_s) const {
    const JobState& job = *task.job;
    const std::size_t index = problem.job_of(task);
    const double start_s = problem.snapshot().time_s + later_s;
    // What is held for others was reckoned with the work of one that was promised an end.
    const bool by_work = job.due_s > 0 && job.remaining_iterations > 0;
    const double end_s = job.time_limit_s > 0 || by_work
                             ? start_s + std::max(job.time_limit_s, run_s)
                             : std::numeric_limits<double>::infinity();
    // One that has just got its GPUs gives none back for a while.
    const double settled_s = start_s + job.settles_s;
    const auto yields = [&](const Hold& hold) {
        return hold.gives_way[index] && settled_s <= hold.from_s;
    };
    std::uint32_t mask = 0;
    for (std::size_t h = 0; h < all.size(); ++h)
        if (all[h].job != job.id && !yields(all[h]) && end_s > all[h].from_s)
            mask |= std::uint32_t{1} << h;
    return mask;
}

std::uint32_t Holds::own(const JobState& job) const {
    if (job.due_s <= 0) return 0;
    for (std::size_t h = 0; h < all.size(); ++h)
        if (all[h].job == job.id) return std::uint32_t{1} << h;
    return 0;
}

bool Holds::is_late(const Problem& problem, const Task& task, const Offer& offer) const {
    const auto own = std::find_if(all.begin(), all.end(),
                                  [&](const Hold& hold) { return hold.job == task.job->id; });
    if (own == all.end() || own->due_s <= 0 || task.job->elastic) return false;
    return problem.snapshot().time_s + problem.run_s(task, offer) > own->due_s;
}

}  // namespace arena
