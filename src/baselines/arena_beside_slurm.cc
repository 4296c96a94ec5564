// SPDX-License-Identifier: GPL-2.0-or-later
// Arena, then Slurm's backfill: see arena_beside_slurm.h.
#include "baselines/arena_beside_slurm.h"

#include <algorithm>
#include <map>

#include "baselines/slurm_backfill.h"
#include "policy/arena/arena_policy.h"

namespace arena {
namespace {

bool waits(const JobState& job) { return job.ordinary && job.phase == JobPhase::pending; }

/// The starts of ordinary jobs. Of Arena's the first of each type are in Slurm's queue.
std::vector<Action> starts_of_slurm(const Snapshot& snapshot, const Offers& offers,
                                    const PolicyOptions& options) {
    std::map<std::string_view, std::int64_t> reserved;
    const auto sees = [&](const JobState& job) {
        if (job.ordinary) return SlurmSees::job;
        const bool is_first = reserved[job.requested_type]++ < options.reserve_depth;
        return is_first ? SlurmSees::reservation : SlurmSees::nothing;
    };
    return decide_slurm_backfill(snapshot, offers, options, sees).actions;
}

Snapshot after(Snapshot snapshot, const std::vector<Action>& starts) {
    for (const Action& action : starts) {
        const auto job = std::ranges::lower_bound(snapshot.jobs, action.job, {}, &JobState::id);
        for (const NodeIndex n : action.nodes)
            snapshot.nodes[n].free_gpus -= action.offer.grid.gpus_per_node;
        job->phase = JobPhase::running;
        job->current = action.offer;
        job->nodes = action.nodes;
        job->start_s = snapshot.time_s;
    }
    return snapshot;
}

}  // namespace

Decision decide_arena_beside_slurm(const Snapshot& snapshot, const Offers& offers,
                                   const PolicyOptions& options) {
    if (std::ranges::none_of(snapshot.jobs, waits)) return decide_arena(snapshot, offers, options);
    std::vector<Action> starts = starts_of_slurm(snapshot, offers, options);
    Decision decision = decide_arena(after(snapshot, starts), offers, options);
    decision.actions.insert(decision.actions.begin(), std::make_move_iterator(starts.begin()),
                            std::make_move_iterator(starts.end()));
    return decision;
}

}  // namespace arena
