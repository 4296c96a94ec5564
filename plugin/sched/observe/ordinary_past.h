// SPDX-License-Identifier: GPL-2.0-or-later
// OrdinaryPast: what jobs that Arena does not plan held, and which of them waited, since the
// shadow's clock, which may be behind Slurm's. Within a look at Slurm, nothing is known better than
// by that look. Left out: nodes that were up or down meanwhile.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "plugin/sched/host/host.h"

namespace arena {

/// The place of these nodes among a view's sets, where they are added if need be.
std::uint32_t put_set(ClusterView& view, const std::vector<NodeIndex>& nodes);

class OrdinaryPast {
  public:
    /// Slurm's cluster at its time. All that jobs hold is free in it from then on, and what is not
    /// planned is remembered.
    void see(ClusterView& real, const std::function<bool(JobId)>& is_planned);
    /// It is planned from now on.
    void forget(JobId job);
    /// Makes the view, as see() left it, that of its time, which never goes back.
    void put_at(ClusterView& view);
    /// The next time after this one that something starts, ends or begins to wait.
    [[nodiscard]] double next_change(double after_s) const;

  private:
    struct Span {
        double from_s = 0, to_s = INFINITY;
        [[nodiscard]] bool holds(double at_s) const { return from_s <= at_s && at_s < to_s; }
    };
    struct Run {
        Span span;
        Occupied held;
    };
    struct Wait {
        Span span;
        OrdinaryJob job;
        std::vector<NodeIndex> nodes;
    };
    std::map<JobId, Run> running_;
    std::vector<Run> over_;
    std::map<JobId, Wait> waiting_;
};

}  // namespace arena
