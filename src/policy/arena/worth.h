// SPDX-License-Identifier: GPL-2.0-or-later
// What one choice is worth to one task now, by the objective: see arena_policy.h for the rule.
#pragma once

#include "policy/arena/arena_rules.h"
#include "policy/order/turn.h"
#include "policy/problem.h"

namespace arena {

/// Whether the job waited longer than its bound until `ran_s` ago, when it was started, if it runs.
bool has_starved(const JobState&, double ran_s, bool runs, const ArenaRules&);

class Worth {
  public:
    /// Keeps the references. Looks at all jobs with offers that may be started or moved, tasks or
    /// not: a node more changes nobody's weight.
    /// turn: kept, may be null.
    Worth(const Problem&, const Offers&, const ArenaRules&, const Turn* turn = nullptr);

    /// Of the job among others: by priority and objective.
    [[nodiscard]] double weight(const Task&) const;
    /// Of the choice to a job of that weight, where nodes boot for so many seconds together;
    /// `here`: it is its current one, on the same nodes.
    [[nodiscard]] double value(const Task&, double weight, const Choice&, bool here,
                               double boot_node_s) const;
    /// Time to finish with the choice, restarts and boots included.
    [[nodiscard]] double time_s(const Task&, const Choice&, bool here, double boot_node_s) const;
    /// By what a restart, so often, and boots lengthen the job's age per start; the first starts do
    /// not count, and it is never short: a young job may still grow.
    [[nodiscard]] double stay_charge(const Task&, const Choice&, double restarts,
                                     double boot_node_s) const;
    /// Waits, or has just been started after it did, for longer than its bound; of one that was
    /// promised an end: that asks for it now.
    [[nodiscard]] bool is_starving(const Task&) const;

  private:
    [[nodiscard]] double bonus(const Task&, const Choice&, bool here, double boot_node_s) const;
    [[nodiscard]] double rate(const Task&, double weight, double time_s) const;

    const Problem& problem_;
    const PolicyOptions& options_;
    const ArenaRules& rules_;
    const Turn* turn_;
    double lowest_priority_, highest_priority_;
    double change_bonus_;     ///< by how many wait
    double boot_charge_ = 1;  ///< by how many GPUs are in use
};

}  // namespace arena
