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
    /// What jobs asked to leave; their marks may not say so yet.
    using Wishes = std::map<JobId, std::vector<AvoidedNode>>;
    /// `by_all`: ascending. The view and the wishes outlive this.
    Avoidance(ClusterView& view, std::vector<NodeIndex> by_all, const Wishes& wishes = none);

    /// The job's node sets lack what it avoids from now on, and its `avoided` says what that is. A
    /// job that could have no node with GPUs then, as one that names its nodes, keeps them all.
    void restrict(JobView& job);

  private:
    static const Wishes none;
    void add_nodes(const std::vector<AvoidedNode>& avoid, std::vector<NodeIndex>& nodes) const;
    [[nodiscard]] std::vector<NodeIndex> avoided_by(const JobView& job) const;
    std::uint32_t without(std::uint32_t node_set, const std::vector<NodeIndex>& nodes);

    ClusterView& view_;
    std::vector<NodeIndex> by_all_;
    const Wishes& wishes_;
    std::map<std::pair<std::uint32_t, std::vector<NodeIndex>>, std::uint32_t> sets_;
};

/// The job has all its nodes again, for it cannot do without those that it would avoid.
void avoid_nothing(const ClusterView& view, JobView& job);

/// Nodes that the job has and should leave, as its mark and these wishes say at that time.
std::vector<std::string> nodes_to_leave(const JobView& job, const std::vector<AvoidedNode>& wishes,
                                        const Snapshot& snapshot);
/// Whether its mark says so already.
bool is_noted(const std::vector<AvoidedNode>& wishes, const JobView& job, double now_s);

}  // namespace arena
