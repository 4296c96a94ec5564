// SPDX-License-Identifier: GPL-2.0-or-later
// When nodes come free: what stock Slurm's backfill goes by. Jobs that run end at their limits;
// jobs that are taken in keep their nodes from their start on; the rest of the time is free. A list
// schedule is made by asking for the first end of one job after the other.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "policy/holds.h"
#include "policy/problem.h"

namespace arena {

/// Seconds until a running job has given its GPUs back, by its limit; by its work where that takes
/// longer with what it has; without a limit by its work, and where nobody said that, after a year,
/// as in Slurm's backfill.
double lasts_at_most_s(const JobState& running);

class Availability {
  public:
    /// Index into the snapshot's jobs: those that are taken to give way at once.
    using GivesWay = std::function<bool(std::size_t job)>;
    Availability(const Problem&, const GivesWay&);

    struct Start {
        const Choice* choice = nullptr;  ///< none: never
        const Offer* offer = nullptr;
        double in_s = 0;    ///< from now
        double run_s = 0;   ///< from then until its work is done, with a start or restart
        double stay_s = 0;  ///< at most, by its limit: so long it keeps the nodes from others
        std::int64_t gpus_per_node = 0;
        std::vector<NodeIndex> nodes;  ///< ascending; of those free by then the last to be so
    };
    /// The start of the choice, in one of its layouts, that ends first.
    [[nodiscard]] Start first_end(const Task&, const Choice&) const;
    void take(const Task&, const Start&);
    /// What of the node is not in use at that time, in seconds from now.
    [[nodiscard]] Resources free_at(NodeIndex, double in_s) const;
    /// Nodes looked at so far.
    [[nodiscard]] std::int64_t steps() const { return steps_; }

  private:
    struct Change {
        double in_s;
        Resources by;
    };
    struct Window {
        double from_s, until_s;  ///< starts within find the node free for long enough
        NodeIndex node;
    };
    void give(NodeIndex, double in_s, std::int64_t gpus, const JobState&);
    void change(NodeIndex, double in_s, const Resources&);
    void windows_of(const JobState&, NodeIndex, std::int64_t per_node, double stay_s,
                    std::vector<Window>&) const;
    void try_layout(const Task&, const Choice&, const Place&, const Offer&, std::int64_t per_node,
                    Start& best) const;

    const Problem& problem_;
    std::vector<std::vector<NodeIndex>> nodes_of_type_;
    std::vector<std::vector<bool>> in_set_;     ///< [node set][node]
    std::vector<std::vector<Change>> changes_;  ///< by node, in order of time
    mutable std::vector<Window> windows_;
    mutable std::int64_t steps_ = 0;
};

}  // namespace arena
