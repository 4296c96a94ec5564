// SPDX-License-Identifier: GPL-2.0-or-later
// What sbatch tells the user of an accepted request: how it was understood, how fast it would be at
// best, whether that ends within the time limit, and by which plan, with what that asks of the
// script. Pure; takes microseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/requests/cluster_rules.h"
#include "plugin/common/quick_estimate.h"
#include "request/request.h"

namespace arena {

/// Those of the estimate, best first, that the request allows and the nodes of its partitions have.
/// Good as long as the estimate is.
std::vector<const QuickEstimate::Shape*> possible_shapes(const Request& request,
                                                         const QuickEstimate& estimate,
                                                         std::int64_t tmp_mb,
                                                         const ClusterFacts& facts,
                                                         const SiteFacts& site);

/// limit_s: 0 = none. tmp_mb: sbatch --tmp. Up to three lines, without a line end. Of the estimate
/// only possible_shapes() count.
std::string submit_line(const Request& request, const std::optional<QuickEstimate>& estimate,
                        std::int64_t tmp_mb, const ClusterFacts& facts, const SiteFacts& site,
                        std::int64_t limit_s);

}  // namespace arena
