// SPDX-License-Identifier: GPL-2.0-or-later
// Avoidance: takes avoided nodes out of what a job may have: those that no job is to start on, and
// those that its own mark names. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugin/sched/host/host.h"

namespace arena {

class Avoidance {
  public:
    /// `by_all`: ascending. The view outlives this.
    Avoidance(ClusterView& view, std::vector<NodeIndex> by_all);

    /// The job's node sets lack what it avoids from now on, and its `avoided` says what that is. A
    /// job that could have no node with GPUs then, as one that names its nodes, keeps them all.
    void restrict(JobView& job);

  private:
    [[nodiscard]] std::vector<NodeIndex> avoided_by(const JobView& job) const;
    std::uint32_t without(std::uint32_t node_set, const std::vector<NodeIndex>& nodes);

    ClusterView& view_;
    std::vector<NodeIndex> by_all_;
    std::map<std::pair<std::uint32_t, std::vector<NodeIndex>>, std::uint32_t> sets_;
};

/// Nodes that the job has and should leave, as its mark and these wishes say at that time.
std::vector<std::string> nodes_to_leave(const JobView& job, const std::vector<AvoidedNode>& wishes,
                                        const Snapshot& snapshot);
/// Whether its mark says so already.
bool is_noted(const std::vector<AvoidedNode>& wishes, const JobView& job, double now_s);

}  // namespace arena
