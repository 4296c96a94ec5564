// SPDX-License-Identifier: GPL-2.0-or-later
// Which nodes a job may have in each partition that takes it: features, excluded and required
// nodes, sockets, owners, reservations, whole nodes. select_nodes() has the last word; what it
// would refuse for good should not be planned.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugin/sched/slurm/host_slurm_partitions.h"

namespace arena {

struct FreeBitmap {
    void operator()(bitstr_t* bitmap) const { bit_free(bitmap); }
};
using Bitmap = std::unique_ptr<bitstr_t, FreeBitmap>;

struct NodeChoice {
    const part_record_t* partition = nullptr;
    Bitmap nodes;
    /// Slurm itself starts the job there: with its --time-min, when nodes have become idle, or by
    /// another topology than the cluster's default, of which Arena knows nothing.
    bool by_slurm = false;
    bool is_cut = false;  ///< reservations keep others of the partition's from it
};

/// Nodes of the partition that are as the job asks, whoever has reserved them.
Bitmap suitable_nodes(const job_record_t* job, const PartitionTry& where);
/// Slurm's reason where there are none with GPUs, and which of the job's options say so.
std::string bad_constraints(const job_record_t* job);

/// The most preferred first; in the partition `lent_in`, where guards of lent nodes stop no job,
/// with those. Under the write locks where there are reservations, else the read locks.
std::vector<NodeChoice> node_choices(job_record_t* job, const PartitionTries& tries,
                                     const std::string& lent_in);

}  // namespace arena
