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

/// tmp_mb: sbatch --tmp, which Slurm keeps itself. An error names the option and what there is.
Status check_cluster(const Request& request, std::int64_t tmp_mb, const ClusterFacts& facts,
                     const SiteFacts& site);

}  // namespace arena
