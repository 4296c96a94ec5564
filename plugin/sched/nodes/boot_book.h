// SPDX-License-Identifier: GPL-2.0-or-later
// BootBook: how long nodes take to wake up, and which of them did not. Pure: times are of the
// monotonic clock, but in what the next slurmctld is told.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

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

    /// What was seen of a node, for the next life: seconds, and of the wall clock when. 0: never.
    struct Seen {
        double took_s = 0, failed_s = 0, asleep_s = 0, waking_s = 0;
        bool operator==(const Seen&) const = default;
    };
    using Kept = std::map<std::string, Seen, std::less<>>;
    /// As of the last round.
    [[nodiscard]] Kept keep() const;
    /// Of nodes that the next round has; what is said of others is left out.
    void take_over(Kept kept) { recalled_ = std::move(kept); }
    /// Something was learned since it was last asked.
    [[nodiscard]] bool take_changed() { return std::exchange(changed_, false); }

  private:
    struct Known {
        std::string gpu_type;
        std::optional<double> waking_since_s;
        double asleep_s = -INFINITY;  ///< when it was last seen asleep
        double took_s = 0;            ///< its last boot; 0: none was seen
        double failed_s = -INFINITY, seen_s = -INFINITY;
        bool unbooted = false;  ///< as Slurm says it
        /// What is worth a new file: not that time goes by.
        [[nodiscard]] auto learned() const {
            return std::tuple(took_s, waking_since_s, unbooted, unbooted ? 0 : failed_s);
        }
    };
    void recall(const std::vector<NodeState>& nodes, double now_s);
    static void learn(Known& known, double now_s);
    void take_in(const NodeState& node, std::optional<NodePower> power, double now_s);
    [[nodiscard]] double boot_s(const NodeState& node, const Known* known, double now_s) const;

    double rest_s_;
    double epoch_s_ = 0;  ///< what the wall clock is ahead of the monotonic one
    bool changed_ = false;
    Kept recalled_;
    std::map<std::string, Known, std::less<>> known_;
    std::map<std::string, double, std::less<>> longest_;  ///< boot seen, by GPU type
};

}  // namespace arena
