// SPDX-License-Identifier: GPL-2.0-or-later
// Whether the nodes of a job's partitions can serve its request at all: GPU types and their
// precisions, counts, pins, and what it needs beside GPUs. Counts what is configured: nodes that
// are down or busy are worth waiting for. One rule for submissions, Comments and jobs that wait.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/hardware.h"
#include "request/request.h"
#include "site/config.h"
#include "site/gpu_facts.h"

namespace arena {

/// The nodes that the job's partitions hold, and the GPU types of the whole cluster.
struct ClusterFacts {
    std::string place;  ///< for people: "partition main"
    std::vector<NodeFacts> partition;
    std::vector<std::string> types;  ///< each once; "" = the site gave none
};

/// What the site has set: arena.yaml, and what its GPU types are.
struct SiteFacts {
    Config config;
    std::vector<GpuType> hardware;
};

/// What the job is watched for, by its own word, else by the site's.
SlowdownMode slowdown_of(const Request& request, const Config& config);

/// The GPUs that the job may have there, on nodes that have all it needs beside them.
std::vector<TypePool> pools_for(const Request& request, std::int64_t tmp_mb,
                                const ClusterFacts& facts, const SiteFacts& site);

/// Whether nodes may give the job numbers of GPUs that differ: its launcher starts ranks so
/// (Launcher::uneven), and nothing but data parallelism is pinned.
bool takes_pieces(const Request& request);
/// The fewest nodes of the pool that give the job exactly so many GPUs, each a multiple of `group`
/// and at most `most_each`: the same number each, or else in pieces where it takes these; 0: none.
std::int64_t fewest_nodes(const Request&, const TypePool&, std::int64_t gpus,
                          std::int64_t group = 1, std::int64_t most_each = INT64_MAX);

/// tmp_mb: sbatch --tmp, which Slurm keeps itself. An error names the option and what there is.
Status check_cluster(const Request& request, std::int64_t tmp_mb, const ClusterFacts& facts,
                     const SiteFacts& site);

}  // namespace arena
