// SPDX-License-Identifier: GPL-2.0-or-later
// Power of a simulated cluster's nodes: they fall asleep when they were idle for long enough, as
// with Slurm's SuspendTime, and a job on one that sleeps waits for its boot. Leaves out the time
// that falling asleep takes, and boots that fail.
#pragma once

#include <cstdint>
#include <vector>

#include "core/cluster.h"

namespace arena::sim {

/// Of one node.
struct PowerRule {
    double boot_s = 0;     ///< from asleep until a job can start
    double suspend_s = 0;  ///< idle for so long it falls asleep; 0: never
    bool operator==(const PowerRule&) const = default;
};

struct PowerMetrics {
    std::int64_t boots = 0;
    double awake_node_s = 0;  ///< boots included
    double node_s = 0;        ///< nodes x makespan
};

/// All nodes are awake and idle at time 0. Times never go back.
class Power {
  public:
    explicit Power(std::vector<PowerRule> rules);  ///< by node

    /// Seconds until a job could start on the node; 0: it is awake.
    [[nodiscard]] double boot_s(NodeIndex node, double now_s) const;
    /// A job gets GPUs of the node, which wakes up for it: boot_s() before that.
    double take(NodeIndex node, double now_s);
    /// No job has any GPU of the node any more.
    void note_idle(NodeIndex node, double now_s);
    /// What there was until then.
    [[nodiscard]] PowerMetrics until(double end_s) const;

  private:
    struct Node {
        PowerRule rule;
        bool busy = false;
        double idle_since_s = 0;   ///< where it is not busy
        double awake_since_s = 0;  ///< of its latest boot
        double up_s = 0;           ///< when that was over
    };
    /// Infinite: not before it is idle again.
    [[nodiscard]] static double sleeps_s(const Node& node);

    std::vector<Node> nodes_;
    std::int64_t boots_ = 0;
    double awake_node_s_ = 0;  ///< until the latest boot of each node
};

}  // namespace arena::sim
