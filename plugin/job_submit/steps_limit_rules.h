// SPDX-License-Identifier: GPL-2.0-or-later
// The time limit of a job that says its steps. Under `order: priority` what gains a place is what
// Slurm enforces: the limit becomes what the steps need, and where the user wants a longer one, it
// stays and the steps give no place. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/requests/cluster_rules.h"
#include "plugin/common/quick_estimate.h"
#include "plugin/job_submit/submit_rules.h"
#include "request/request.h"

namespace arena {

struct StepsLimit {
    std::int64_t minutes = 0;  ///< the limit that the job gets; 0 = it keeps the one that it has
    double iteration_s = 0;    ///< what it was judged by; 0 = not known, or nothing to judge
    std::string note = {};     ///< for the user; may be empty
};

/// Nothing for a job without steps, but under policy arena and `order: priority`, and for tasks of
/// arrays that may share a pipeline, where each is slower than by itself. Where sbatch did not find
/// out how slow the slowest plan is (it stops looking after a fraction of a second), only a note.
StepsLimit limit_by_steps(const Request& request, const std::optional<QuickEstimate>& estimate,
                          const SubmitFacts& facts, const ClusterFacts& cluster,
                          const SiteFacts& site);

}  // namespace arena
