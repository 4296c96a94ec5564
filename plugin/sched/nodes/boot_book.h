// SPDX-License-Identifier: GPL-2.0-or-later
// BootBook: how long nodes take to wake up, and which of them did not. What it remembers is a
// cache: it begins with ResumeTimeout anew in each life. Pure: times are of the monotonic clock.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "plugin/sched/host/host.h"

namespace arena {

class BootBook {
  public:
    /// rest_s: so long a node that did not boot is left to those who find no other.
    explicit BootBook(double rest_s) : rest_s_(rest_s) {}

    /// Puts into the view how long nodes that are not awake need as far as that was seen: the
    /// node's own last boot, else the longest of its GPU type, at most ResumeTimeout; less what it
    /// has booted already. Says `unbooted` of nodes that rest. O(nodes) where a node sleeps or one
    /// is known.
    void new_round(ClusterView& view);

  private:
    struct Known {
        std::string gpu_type;
        std::optional<double> waking_since_s;
        double asleep_s = -INFINITY;  ///< when it was last seen asleep
        double took_s = 0;            ///< its last boot; 0: none was seen
        double failed_s = -INFINITY, seen_s = -INFINITY;
    };
    static void learn(Known& known, double now_s);
    void take_in(const NodeState& node, std::optional<NodePower> power, double now_s);
    [[nodiscard]] double boot_s(const NodeState& node, const Known* known, double now_s) const;

    double rest_s_;
    std::map<std::string, Known, std::less<>> known_;
    std::map<std::string, double, std::less<>> longest_;  ///< boot seen, by GPU type
};

}  // namespace arena
