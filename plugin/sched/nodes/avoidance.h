// SPDX-License-Identifier: GPL-2.0-or-later
// Avoidance: takes avoided nodes out of what a job may have: those that no job is to start on,
// those that its user's own jobs found slow, those that its own mark names; and both ends of a slow
// link, as long as nobody knows which of them is the slow one. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin/sched/host/host.h"
#include "plugin/sched/nodes/slow_nodes.h"

namespace arena {

/// What is avoided, each list ascending.
struct AvoidedNodes {
    std::vector<NodeIndex> nodes = {};                 ///< by everybody
    std::vector<NodePair> pairs = {};                  ///< the same: no job is to have both
    std::map<std::uint32_t, SlowNodes::Own> own = {};  ///< by the jobs of this user besides
    std::vector<NodePair> open = {};       ///< slow links of which nobody knows the slow end
    std::vector<NodeIndex> linked = {};    ///< nothing but such links is said of them
    std::vector<NodeIndex> innocent = {};  ///< another node explains what is said of them
};

class Avoidance {
  public:
    /// What jobs asked to leave; their marks may not say so yet.
    using Wishes = std::map<JobId, std::vector<AvoidedNode>>;
    /// All of it outlives this.
    Avoidance(ClusterView& view, const AvoidedNodes& avoided, const Wishes& wishes = none);

    /// The job's node sets lack what it avoids from now on, and its `avoided` says what that is. A
    /// job that could have no node with GPUs then, as one that names its nodes, keeps them all.
    /// Of a pair both are taken out; its `eased` says what there is with one of them, and with
    /// both: see ease_avoidance().
    void restrict(JobView& job);

  private:
    static const Wishes none;
    /// What one job avoids: for good, and as ends of pairs.
    struct Of {
        std::vector<NodeIndex> nodes;
        std::vector<NodePair> pairs;
    };
    void add_nodes(const std::vector<AvoidedNode>& avoid, std::vector<NodeIndex>& nodes) const;
    [[nodiscard]] Of avoided_by(const JobView& job) const;
    [[nodiscard]] std::optional<AvoidingChoice> choice(const JobView& job,
                                                       const std::vector<NodeIndex>& whole);
    std::uint32_t without(std::uint32_t node_set, const std::vector<NodeIndex>& nodes);

    ClusterView& view_;
    const AvoidedNodes& avoided_;
    const Wishes& wishes_;
    std::map<std::pair<std::uint32_t, std::vector<NodeIndex>>, std::uint32_t> sets_;
};

/// The job has some nodes more of those that it would avoid: one end of each pair, or both. False:
/// there is nothing between what it has and all of them.
bool ease_avoidance(JobView& job);
/// The same until it avoids no pair: on one node a link to another one is no matter.
void avoid_no_pair(JobView& job);
/// The job has all its nodes again, for it cannot do without those that it would avoid.
void avoid_nothing(const ClusterView& view, JobView& job);

/// Nodes that the job has and should leave, as its mark and these wishes say at that time: of a
/// pair both or none, and none that another node explains.
std::vector<std::string> nodes_to_leave(const JobView& job, const std::vector<AvoidedNode>& wishes,
                                        const Snapshot& snapshot, const AvoidedNodes& known);
/// Whether its mark says so already.
bool is_noted(const std::vector<AvoidedNode>& wishes, const JobView& job, double now_s);

}  // namespace arena
