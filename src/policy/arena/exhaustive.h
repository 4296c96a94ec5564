// SPDX-License-Identifier: GPL-2.0-or-later
// The best way to put few tasks on few nodes, by depth-first branch and bound: each task stays, has
// one of its choices on some nodes, or has nothing. Bounded by the prices of GPUs (knapsack.h), and
// no state of the nodes is entered twice with less in hand. For small rounds, where one wrong
// placement costs a tenth of all.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/cluster.h"
#include "policy/packing.h"

namespace arena {

/// What a task has in the end.
struct Outcome {
    bool stays = false;   ///< on the nodes that it runs on
    Placement placement;  ///< without nodes: it stays, or has nothing
};

class Exhaustive {
  public:
    /// values: by choice, of all tasks one after the other; moved: by task, that of its current
    /// choice on other nodes; what is worth nothing is left out. prices: of a GPU by type, >= 0;
    /// good ones make it fast. Keeps references to the problem and the packing.
    Exhaustive(const Problem&, const Packing& layouts, std::span<const double> values,
               std::span<const double> moved, const std::vector<double>& prices);

    /// Whether there are so few tasks and nodes that a search is worth its steps.
    [[nodiscard]] static bool is_small(const Problem&);
    /// The outcomes of all tasks with the greatest sum of values above `least`, or the best found
    /// in the steps; empty when there are none. Takes its steps off `steps`: what is left above 0
    /// says that the search was complete. Deterministic.
    [[nodiscard]] std::vector<Outcome> search(double least, std::int64_t& steps);

  private:
    struct Option {
        double value;
        const Choice* choice;
        const Offer* offer;
        std::int64_t per_node;  ///< 0: on the nodes that the task runs on
        std::uint32_t place = 0;
        std::uint32_t node_set = 0;  ///< of the place
        bool is_limited = false;     ///< as Problem has it of the place
    };
    struct Node {
        std::int64_t gpus, cpus, memory_mb;
        std::int32_t type;
        bool same_node = false;  ///< as NodeState has it
        std::int32_t kind = 0;   ///< nodes of one kind differ in nothing but what is free
    };
    void add_options(const Packing&, std::span<const double> values, double moved, std::size_t i);
    [[nodiscard]] bool is_near_enough(const Option&, const std::vector<NodeIndex>& nodes) const;
    void find_kinds();
    void find_bounds(const std::vector<double>& prices);
    [[nodiscard]] double bound(std::size_t depth) const;
    [[nodiscard]] bool is_new(std::size_t depth, double sum);
    void descend(std::size_t depth, double sum);
    void stay(std::size_t depth, const Option&, double sum);
    void place(std::size_t depth, const Option&, std::size_t from, double sum);
    [[nodiscard]] static bool fits(const JobState&, const Node&, std::int32_t type,
                                   std::int64_t gpus);
    void take_current(const JobState&, std::int64_t times);
    [[nodiscard]] bool is_like_an_earlier_one(std::size_t from, std::size_t n) const;
    void take(const JobState&, NodeIndex, std::int64_t gpus);

    const Problem& problem_;
    const Fabric& fabric_;
    std::vector<Node> nodes_;                             ///< nothing stands on them yet
    std::vector<std::int64_t> free_;                      ///< GPUs by type
    std::vector<std::vector<bool>> in_set_;               ///< [node set][node]
    std::vector<std::size_t> order_;                      ///< tasks, the most valued first
    std::vector<std::vector<Option>> options_;            ///< by task, the best first
    std::vector<double> prices_, rest_net_, rest_value_;  ///< of the tasks from a depth on
    std::vector<Outcome> outcomes_, best_;                ///< by task
    std::unordered_map<std::string, double> seen_;        ///< depth and nodes: most in hand so far
    double most_ = 0;
    std::int64_t steps_ = 0;
};

}  // namespace arena
