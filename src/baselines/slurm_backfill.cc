// SPDX-License-Identifier: GPL-2.0-or-later
// See slurm_backfill.h.
#include "baselines/slurm_backfill.h"

#include <algorithm>

#include "policy/order/availability.h"

namespace arena {
namespace {

using Sees = std::function<SlurmSees(const JobState&)>;

struct Waiting {
    std::size_t job;  ///< index in the snapshot
    SlurmSees as;
};

/// In Slurm's order.
std::vector<Waiting> queue_of(const Snapshot& snapshot, const Sees& sees) {
    const auto& jobs = snapshot.jobs;
    std::vector<std::size_t> order;
    for (std::size_t j = 0; j < jobs.size(); ++j)
        if (jobs[j].phase == JobPhase::pending) order.push_back(j);
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        return std::tuple(-jobs[a].priority, jobs[a].submit_s) <
               std::tuple(-jobs[b].priority, jobs[b].submit_s);
    });
    std::vector<Waiting> queue;
    for (const std::size_t j : order) {
        if (queue.size() == slurm_looks_at) break;
        const SlurmSees as = sees(jobs[j]);
        if (as != SlurmSees::nothing) queue.push_back({j, as});
    }
    return queue;
}

Action start_of(const Task& task, Availability::Start start) {
    Action action{.kind = ActionKind::start,
                  .job = task.job->id,
                  .offer = *start.offer,
                  .nodes = std::move(start.nodes)};
    action.offer.grid.nodes = std::ssize(action.nodes);
    action.offer.grid.gpus_per_node = start.gpus_per_node;
    return action;
}

}  // namespace

Decision decide_slurm_backfill(const Snapshot& snapshot, const Offers& offers,
                               const PolicyOptions& options, const Sees& sees) {
    Decision decision;
    const std::vector<Waiting> queue = queue_of(snapshot, sees);
    if (queue.empty()) return decision;
    std::vector<bool> left_out(snapshot.jobs.size(), true);
    for (const Waiting& waiting : queue) left_out[waiting.job] = false;
    const Problem problem(snapshot, offers, options, Scope::layouts, left_out);
    std::vector<const Task*> task_of(snapshot.jobs.size());
    for (const Task& task : problem.tasks()) task_of[problem.job_of(task)] = &task;
    Availability free(problem);
    for (const auto& [job, as] : queue) {
        const Task* task = task_of[job];
        Availability::Start start = task ? free.in_slurm(*task) : Availability::Start{};
        const bool now = start.in_s <= 0;
        if (start.choice == nullptr || (now && as == SlurmSees::reservation)) continue;
        free.take(*task, start);
        if (now) decision.actions.push_back(start_of(*task, std::move(start)));
    }
    return decision;
}

Decision decide_slurm_backfill(const Snapshot& snapshot, const Offers& offers,
                               const PolicyOptions& options) {
    return decide_slurm_backfill(snapshot, offers, options,
                                 [](const JobState&) { return SlurmSees::job; });
}

}  // namespace arena
