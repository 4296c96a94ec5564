// SPDX-License-Identifier: GPL-2.0-or-later
// What a job gets beside its GPUs: CPUs and memory, as its user asked for them in Slurm's own
// options, which keep Slurm's meaning in whatever shape the job gets. Pure rules.
#pragma once

#include <string>
#include <vector>

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
/// Whether some of the nodes can take the offer's GPUs.
bool can_hold(const std::vector<TypePool>& pools, const Offer& offer);

/// Memory as the shape, whose offer is set, asks Slurm for it. A plan of N nodes has N times what
/// is asked for by node.
void write_memory(Shape& shape, const Request& request, const JobState& share);

}  // namespace arena
