// SPDX-License-Identifier: GPL-2.0-or-later
// Where a job may stand: one place after the other, the preferred first. A job takes all its nodes
// of one place.
#pragma once

#include "core/cluster.h"

namespace arena {

/// Whether the limits of the place allow the job so many GPUs of one node.
inline bool allows_on_node(const Place& place, const JobState& job, std::int64_t gpus) {
    return gpus * job.cpus_per_gpu <= place.max_cpus_per_node &&
           gpus * job.memory_mb_per_gpu <= place.max_memory_mb_per_node;
}

/// The same of so many nodes with so many GPUs each.
inline bool allows(const Place& place, const JobState& job, std::int64_t nodes,
                   std::int64_t gpus_per_node) {
    return nodes >= place.min_nodes && nodes <= place.max_nodes &&
           allows_on_node(place, job, gpus_per_node);
}

/// Asks `works(place, index)` of each place of the job, until one does. Allocates nothing.
template <typename Works>
bool any_place(const JobState& job, Works works) {
    if (job.places.empty()) return works(Place{.node_set = job.node_set}, std::uint32_t{0});
    for (std::uint32_t i = 0; i < job.places.size(); ++i) {
        if (works(job.places[i], i)) return true;
    }
    return false;
}

}  // namespace arena
