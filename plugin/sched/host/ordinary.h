// SPDX-License-Identifier: GPL-2.0-or-later
// An ordinary job that waits among the first of its partitions: what it asks of Slurm, and how
// policies see it, so that no decision puts off its start. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/cluster.h"

namespace arena {

/// So many of each are looked at.
inline constexpr std::size_t ordinary_of_a_partition = 16;

struct OrdinaryJob {
    JobId id = 0;
    double priority = 0;  ///< as JobView::priority
    double rank = 0;      ///< as JobView::rank
    double submit_s = 0, eligible_s = 0;
    double time_limit_s = 0;  ///< 0 = unlimited
    double start_s = 0;       ///< when Slurm expects it to start; 0 = it has not said
    bool is_known = true;     ///< what follows has been read
    std::uint32_t node_set = 0;
    std::int64_t nodes = 1, tasks = 1, cpus = 1;  ///< at least, in all
    std::int64_t memory_mb = 0;                   ///< on each node, or CPU; 0: any
    bool memory_is_per_cpu = false, whole_nodes = false;
    std::string per_node, per_job, per_task;  ///< TRES as its user asked: "gres/gpu:a100:4"
};

struct AskedGpus {
    std::string type;                       ///< "" = any
    std::int64_t per_node = 0, in_all = 0;  ///< the one that it names; 0: it does not
    bool operator==(const AskedGpus&) const = default;
};

/// Nothing where it asks for no GPUs, for several types of them, or per socket.
std::optional<AskedGpus> asked_gpus(const OrdinaryJob&);

/// JobState::ordinary, with an offer for each GPU type that its nodes have and it may get, on the
/// fewest nodes that share its GPUs out evenly; it takes as long as its limit, or a year. Nothing
/// where it asks for no GPUs that are known here, or no nodes share them out.
std::optional<std::pair<JobState, std::vector<Offer>>> state_of(const OrdinaryJob&,
                                                                const Snapshot& nodes);

}  // namespace arena
