// SPDX-License-Identifier: GPL-2.0-or-later
// When nodes come free: what stock Slurm's backfill goes by. Jobs that run end at their limits;
// jobs that are taken in keep their nodes from their start on; the rest of the time is free. A list
// schedule is made by asking for the first end of one job after the other.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <span>
#include <tuple>
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
    /// What is that far away rests on the end of a job that nobody knows.
    static constexpr double guessed_s = 180.0 * 86400;
    static constexpr double at_its_end = std::numeric_limits<double>::infinity();
    /// Nobody gives way. Keeps a reference. O(nodes + what stands there).
    explicit Availability(const Problem&);
    /// Of the nodes that are free by then a start takes the first to be so, not the last.
    void take_first(bool first) { takes_first_ = first; }
    /// A running job, by index in the snapshot's jobs, gives its nodes back by then (in seconds
    /// from now) where it would not have ended before. O(its nodes).
    void give_way(std::size_t job, double in_s);

    struct Start {
        const Choice* choice = nullptr;  ///< none: never
        const Offer* offer = nullptr;
        double in_s = 0;    ///< from now
        double run_s = 0;   ///< from then until its work is done, with a start or restart
        double stay_s = 0;  ///< at most, by its limit: so long it keeps the nodes from others
        std::int64_t gpus_per_node = 0;
        std::vector<NodeIndex> nodes;          ///< ascending; see take_first()
        std::vector<std::int64_t> split = {};  ///< as Grid::split
        [[nodiscard]] std::int64_t gpus_on(std::size_t node) const {
            return split.empty() ? gpus_per_node : split[node];
        }
    };
    /// The start of the choice, in one of its layouts, that ends first. Pieces that differ are
    /// planned ahead only where no nodes will ever have an equal layout: else they are taken as
    /// they are free, or not at all.
    [[nodiscard]] Start first_end(const Task&, const Choice&) const;
    /// That of the task in Slurm's own schedule: as it would have been asked of Slurm; where nobody
    /// knows that, of all choices the one that ends first, and of those that end together the
    /// first, which has the fewest GPUs of its type.
    [[nodiscard]] Start in_slurm(const Task&) const;
    void take(const Task&, const Start&);
    /// Undoes take().
    void give_back(const Task&, const Start&);
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
    void occupy(const Task&, const Start&, std::int64_t sign);
    void change(NodeIndex, double in_s, const Resources&);
    void forget_windows(NodeIndex);
    /// Windows of all nodes that a layout may have, by start, then node.
    struct Windows {
        std::vector<Window> list;
        bool close = false;  ///< some do: for another time on the nodes there are others
    };
    [[nodiscard]] const Windows& windows_for(const JobState&, std::int32_t type,
                                             std::uint32_t node_set, std::int64_t per_node,
                                             double stay_s) const;
    void windows_of(const JobState&, NodeIndex, std::int64_t per_node, double stay_s,
                    Windows&) const;
    [[nodiscard]] std::vector<NodeIndex> nodes_of(std::span<const Window> open, std::size_t wanted,
                                                  const Offer&, Span widest, bool anywhere) const;
    void try_layout(const Task&, const Choice&, const Place&, const Offer&, std::int64_t per_node,
                    Start& best) const;
    void try_pieces(const Task&, const Choice&, const Place&, const Offer&, Start& best) const;
    [[nodiscard]] bool take_pieces(std::span<const Window> open, const Place&, std::int64_t gpus,
                                   Start&) const;
    [[nodiscard]] double stay_s(const JobState&, double run_s) const;
    template <typename Better, typename Found>
    static void sweep(const std::vector<Window>&, std::size_t wanted, Better, Found);

    const Problem* problem_;
    struct Known;
    std::shared_ptr<const Known> known_;        ///< what does not change; copies share it
    std::vector<double> leaves_s_;              ///< by job: when one that runs gives its nodes back
    std::vector<std::vector<Change>> changes_;  ///< by node, in order of time
    /// By GPU type, node set, GPUs on a node, and CPUs and memory of each of them.
    using Shape = std::tuple<std::int32_t, std::uint32_t, std::int64_t, std::int64_t, std::int64_t>;
    mutable std::map<Shape, Windows> windows_;  ///< that hold still
    bool takes_first_ = false;
    mutable std::int64_t steps_ = 0;
};

}  // namespace arena
