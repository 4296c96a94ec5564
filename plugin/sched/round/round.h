// SPDX-License-Identifier: GPL-2.0-or-later
// Round: all that lives for one round of the scheduler, and what came of it, as values that one
// stage (stages.h) hands to the next.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/decision.h"
#include "planner/search/offers.h"
#include "plugin/sched/arrays/array_book.h"
#include "plugin/sched/host/host.h"
#include "plugin/sched/profiles/run_place.h"
#include "plugin/sched/round/request_cache.h"
#include "policy/policy.h"

namespace arena {

/// What the decision on a job may lead to now.
enum class Role {
    waits,    ///< it may be started or released
    returns,  ///< nothing yet: it counts as waiting, but still saves its state or has only just
              ///< ended
    runs,     ///< it may be moved
};

/// A job that takes part in this round's decision.
struct PlannedJob {
    const JobView* view;  ///< in Round::view
    SharedRequest wanted;
    OfferList offers;
    Role role;
    std::size_t state;  ///< its place in Round::snapshot.jobs
};

/// What a job needs whatever is decided about all of them.
struct Order {
    enum class Kind {
        hold,          ///< released, it is held again to be told why it waits
        give_up,       ///< the same where Slurm's preemption for it does not end
        save_state,    ///< its owner asks for another shape
        stay,          ///< it has saved its state, and goes on inside itself
        requeue,       ///< it did not exit in time after it was told to save its state
        leave,         ///< some of its nodes: see Books::imposed
        note_avoided,  ///< it asked to leave some of its nodes, and cannot yet
        split,         ///< of the record of an array: tasks get records of their own
        join,          ///< it starts as a member of what trains its siblings
        leave_to_slurm
    };
    Kind kind;
    const JobView* job;      ///< in Round::view
    std::int64_t done = 0;   ///< save_state, leave: iterations
    Shape shape = {};        ///< leave_to_slurm, join
    Move move = {};          ///< leave, note_avoided, save_state: where it stays
    Action action = {};      ///< stay: offer and nodes
    std::int64_t tasks = 0;  ///< split
};

/// What there is to say of a job: to its owner as Slurm's reason, and to whoever asks.
struct Note {
    enum class Shown {
        no,        ///< to who asks only
        ours,      ///< the reason, in Arena's words
        slurms,    ///< the reason, in Slurm's own, that people know how to look up
        released,  ///< the reason is Slurm's, who writes it anew in each of its passes
    };
    const JobView* job;
    std::string state;
    std::optional<std::string> reason = {};  ///< nothing: what was said last stands
    Shown shown = Shown::no;
    std::optional<Chosen> chosen = {};
    bool keeps_chosen = false;  ///< what was chosen last stands
};

/// It waits, held, for this.
inline Note waits_for(const JobView& job, std::string text, Note::Shown shown = Note::Shown::ours) {
    return {.job = &job, .state = "waiting", .reason = std::move(text), .shown = shown};
}

/// What ready jobs are about to take, as far as they were considered: see look_ahead().
struct LookAhead {
    std::vector<Taken> taken;  ///< of each node
    std::size_t ready = 0;     ///< jobs so far
    std::size_t seen = 0;      ///< those that `taken` knows
    std::size_t looks = 0;
};

struct Round {
    /// What a job that saves its state is about to give back.
    struct Return {
        NodeIndex node;
        std::int64_t gpus, cpus, memory_mb;
    };

    ClusterView view;   ///< jobs that have their nodes first, then in the order of the queue
    Snapshot snapshot;  ///< the same, as the policy sees it
    Offers offers;
    PolicyOptions options;
    std::map<JobId, PlannedJob> planned;
    std::map<JobId, std::shared_ptr<const ArrayLead>> leads;  ///< of those, who starts a pipeline
    std::vector<Order> orders;
    std::vector<Note> notes;
    std::vector<Return> returns;
    LookAhead ahead;
    std::size_t pending = 0, running = 0;

    Round() = default;
    Round(Round&&) = default;  // what points into the view goes with it
    Round& operator=(Round&&) = default;
    Round(const Round&) = delete;
    Round& operator=(const Round&) = delete;
};

/// Changes that Slurm took, and those it did not.
struct Changes {
    std::uint64_t starts = 0, releases = 0, reholds = 0, checkpoints = 0, moves = 0, requeues = 0,
                  opt_outs = 0, stale = 0, failed_starts = 0;
};

/// What came of a decision, job by job.
struct Journal {
    struct Start {
        JobId job;
        std::vector<NodeIndex> nodes;
        Offer offer;
    };
    std::vector<Note> notes;
    std::vector<Start> starts;
    Changes changes;
};

}  // namespace arena
