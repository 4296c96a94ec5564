// SPDX-License-Identifier: GPL-2.0-or-later
// Room for a job that its GPUs were chosen for but that finds no nodes: running jobs on the nodes
// where that costs least move to others or stop, if what that loses is less than what the job
// gains. So fragments are joined, and jobs that may use few nodes get them, only when it pays.
#pragma once

#include <span>
#include <vector>

#include "core/cluster.h"
#include "policy/packing.h"

namespace arena {

class Displacement {
  public:
    /// values: of all choices, one task after the other, that of a task's current choice where it
    /// stands; moved: by task, that of its current choice on other nodes. Keeps the references.
    Displacement(const Problem&, std::span<const double> values, std::span<const double> moved);

    /// Who had to leave; without nodes, for nothing else.
    struct Leaver {
        std::size_t task = 0;
        Placement placement;
    };
    /// Whom room is made for, and at whose cost.
    struct Newcomer {
        std::size_t task;
        const Choice& choice;
        double alternative;              ///< what the task would have otherwise
        const std::vector<bool>& keeps;  ///< tasks that may have to leave
        bool elsewhere;                  ///< false: leavers get no other nodes for now
    };
    /// Places the newcomer's choice where tasks of `keeps` stand, when all values together then
    /// grow by more than `alternative`. True: placed, and the leavers are off their nodes and on
    /// their new ones. False: nothing has changed. O(nodes of the type x jobs on them).
    [[nodiscard]] bool displace(const Newcomer&, Packing&, Placement& out,
                                std::vector<Leaver>& leavers);

  private:
    struct NodeCost;
    void keep_allowed(std::vector<NodeCost>& costs, std::size_t wanted, const Place&, const Choice&,
                      const Offer&) const;
    struct NodeCost {
        double loss;
        NodeIndex node;
        std::vector<std::size_t> victims;
    };
    void index_nodes();
    [[nodiscard]] double current_value(std::size_t i) const {
        return values_[static_cast<std::size_t>(problem_.tasks()[i].current)];
    }
    [[nodiscard]] bool cost_of_node(const Task&, NodeIndex, std::int64_t per_node,
                                    const std::vector<bool>& keeps, NodeCost&) const;
    [[nodiscard]] std::vector<std::size_t> victims_for(const Task&, const Choice&, const Place&,
                                                       const Offer&, std::int64_t per_node,
                                                       const std::vector<bool>& keeps) const;
    bool try_layout(const Newcomer&, const Place&, const Offer&, std::int64_t per_node,
                    double least_gain, Placement& out, std::vector<Leaver>& leavers);
    double relocate(std::size_t victim, std::vector<Leaver>& leavers);

    const Problem& problem_;
    Packing* packing_ = nullptr;  ///< of the call
    std::span<const double> values_, moved_;
    bool elsewhere_ = true;  ///< of the call
    std::vector<std::vector<NodeIndex>> nodes_of_type_;
    std::vector<std::vector<std::size_t>> on_node_;  ///< running tasks by node
};

}  // namespace arena
