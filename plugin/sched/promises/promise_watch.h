// SPDX-License-Identifier: GPL-2.0-or-later
// What people see of promises beside their dates: who started while a job waited that stands before
// it, and why that costs it nothing; that a promise was given, moved later, taken back or broken,
// and why. Leaves out on purpose: every rule of promises, which are src/policy/order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "policy/order/promises.h"

namespace arena {

/// A job that started while one waited that stands before it in Slurm's order, was promised an end
/// and could have had its GPUs.
struct Passing {
    JobId job = 0;
    double at_s = 0;  ///< by the epoch
    Grid grid;
    std::string why;  ///< it costs the one that waits nothing
};

class PromiseWatch {
  public:
    static constexpr std::size_t most_passings = 5;  ///< of one job: the last ones
    /// So often at most a job is told something new, and only what is later by more than this.
    static constexpr double quiet_s = 60;

    struct Event {
        JobId job;
        std::string state, text;
    };
    struct News {
        std::vector<Event> events;  ///< for the histories of promised jobs
        /// What there is to say of jobs that started before a promised one: nobody is named.
        std::map<JobId, std::string> passed;
    };
    /// Once a round: the cluster with what the round has started. O(jobs log jobs).
    News look(const Snapshot& now, const PromiseBook&, double priority_step);

    /// What was promised, and told, before this watch.
    void recall(const PromiseBook::Kept&);

    /// A running job has been told to leave its nodes, and will stand before others again.
    void note_departure(JobId job, Departure by) { departed_[job] = by; }
    /// Jobs that are gone.
    void forget(const std::function<bool(const std::pair<const JobId, Departure>&)>& gone) {
        std::erase_if(departed_, gone);
    }

    /// Of a waiting job; the latest last.
    [[nodiscard]] const std::vector<Passing>& passings(JobId) const;
    /// Promises that were broken since, by what is known to have come between.
    struct Broken {
        std::int64_t nodes_down = 0, nodes_returned = 0, slow_nodes = 0, limits_raised = 0,
                     away = 0, others = 0;
    };
    [[nodiscard]] const Broken& broken() const { return broken_; }

  private:
    struct Seen {
        double told_due_s = 0;  ///< 0: its owner was told of no promise, or that it is gone
        double told_at_s = 0;
        bool judged = false;  ///< its first start
        bool told_broken = false;
        double recalled_s = 0;  ///< when an earlier slurmctld last looked; 0: that is settled
        bool nodes_down = false, nodes_returned = false, limit_raised = false;
        bool away = false;  ///< slurmctld was, when it should have started
        std::vector<Passing> passings;
    };
    /// What ends later, or is not there any more, than at the last look.
    struct Changes {
        std::vector<NodeIndex> down, returned;
        double latest_raised_s = 0;  ///< the latest new end
    };
    struct Look {
        const Snapshot& now;
        const PromiseBook& book;
        double priority_step;
        const std::map<JobId, Departure>& departed;
    };
    Changes take_changes(const Snapshot& now);
    void forget_returned(const Snapshot& now);
    static void note_changes(const JobState&, const Promise&, const Changes&, const Snapshot&,
                             Seen&);
    void note_passings(const Look&, News&);
    static void tell(JobId, const Promise*, const Look&, Seen&, News&);
    void judge(JobId, const Promise&, Seen&, News&);

    std::map<JobId, Seen> seen_;
    std::map<JobId, Departure> departed_;  ///< those that have not started again
    std::set<JobId> waiting_;              ///< at the last look
    /// At the last look: of each that runs its start, by which another run is told, and its end at
    /// the latest; nodes that took no jobs; nodes that were to go back.
    std::map<JobId, std::pair<double, double>> ends_;
    std::set<std::string> down_, returning_;
    Broken broken_;
};

}  // namespace arena
