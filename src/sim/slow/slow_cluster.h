// SPDX-License-Identifier: GPL-2.0-or-later
// The cluster's side of slowdowns in a simulation: which are there now, which GPUs of a node each
// job has, what jobs said of nodes, and which nodes are kept from them because of that, by the
// scheduler's own rules.
#pragma once

#include <map>
#include <set>

#include "sim/slow/slow_effect.h"

namespace arena::sim {

class SlowCluster {
  public:
    SlowCluster(std::vector<Slowdown> slowdowns, const std::vector<NodeState>& nodes,
                const SlowdownRules& rules);

    /// The next time at which something begins, ends, or is looked at again; infinity: never.
    [[nodiscard]] double next_s() const;
    /// Brings what is there up to that time; whether slowdowns changed.
    bool advance(double now_s);
    [[nodiscard]] const std::vector<Slowdown>& active() const { return active_; }
    [[nodiscard]] std::size_t begun() const { return next_; }

    /// The lowest free GPUs of each node, in their order.
    std::vector<Device> take(std::span<const NodeIndex> nodes, std::int64_t per_node);
    void give_back(const std::vector<Device>& devices);

    /// The job found these nodes slow.
    void note(JobId job, std::span<const NodeIndex> nodes, double now_s);
    /// Nodes kept from all jobs; ascending.
    [[nodiscard]] const std::vector<NodeIndex>& quarantined() const { return quarantined_; }
    [[nodiscard]] std::size_t most_quarantined() const { return most_quarantined_; }

  private:
    struct Fact {
        std::set<JobId> by;
        double since_s = 0, until_s = 0;
    };
    [[nodiscard]] bool is_slow(NodeIndex node) const;
    void recheck(double now_s);
    void quarantine();

    std::vector<Slowdown> slowdowns_;  ///< by start
    std::size_t next_ = 0;
    std::vector<Slowdown> active_;
    const std::vector<NodeState>& nodes_;
    SlowdownRules rules_;
    std::vector<std::vector<bool>> taken_;  ///< by node and GPU
    std::map<NodeIndex, Fact> facts_;
    std::vector<NodeIndex> quarantined_;
    std::size_t most_quarantined_ = 0;
};

}  // namespace arena::sim
