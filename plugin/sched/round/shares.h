// SPDX-License-Identifier: GPL-2.0-or-later
// What a job gets beside its GPUs: CPUs and memory, as its user asked for them in Slurm's own
// options, which keep Slurm's meaning in whatever shape the job gets. Pure rules.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "planner/requests/cluster_rules.h"
#include "plugin/sched/host/host.h"
#include "plugin/sched/plans/offer_book.h"
#include "request/request.h"
#include "site/config.h"
#include "site/gpu_facts.h"

namespace arena {

/// Whether a list of GPU types, empty for any, has this one.
bool allows(const std::vector<std::string>& gpu_types, const std::string& type);

/// Fills gpu_types, CPUs and memory: the user's request, else the site's setting, else an even
/// share of the node.
void take_share(JobState& state, const Config& config, const Request& request,
                const std::vector<SitePool>& pools);

/// The same, as what one node must have of it.
NodeNeeds needs_of(const JobState& share, const Request& request);
/// Whether some of the nodes can take the GPUs of one of the offers.
bool can_hold_any(const std::vector<TypePool>& pools, const std::vector<Offer>& offers);
/// Whether MinNodes and MaxNodes of some partition of the job allow one of its offers.
bool fits_node_limits(const JobView& job, const std::vector<Offer>& offers);

/// Memory as the shape, whose offer is set, asks Slurm for it. A plan of N nodes has N times what
/// is asked for by node.
void write_memory(Shape& shape, const Request& request, const JobState& share);

/// A job that was left to Slurm: its smallest count, of the first type it allows that has as many,
/// on as few nodes as equal shares go. No such type: any GPU (a job without --arena-types).
Shape plain_shape(const JobView& job, const Request& request, const Config& config,
                  const std::vector<SitePool>& pools);

/// What nodes have in all, each question of a round answered once.
class NodePools {
  public:
    explicit NodePools(const ClusterView& view) : view_(view) {}
    /// GPUs of a set's nodes that have all this beside them.
    const std::vector<TypePool>& of(std::uint32_t node_set, bool up_only, const NodeNeeds& needs);

  private:
    using Key = std::tuple<std::uint32_t, bool, std::int64_t, std::int64_t, std::int64_t>;
    const ClusterView& view_;
    std::map<Key, std::vector<TypePool>> pools_;
};

/// Of a job that asks beside its GPUs for more than any node has, whatever the shape: by the rules,
/// and in the words, of a submission.
std::string why_no_node(const JobView& job, const Request& request, const ClusterView& view,
                        const SiteFacts& site);

}  // namespace arena
