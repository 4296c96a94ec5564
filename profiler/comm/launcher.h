// SPDX-License-Identifier: GPL-2.0-or-later
// Who the ranks of a run are: processes that an MPI launcher started (srun --mpi=pmix, mpirun), or
// all of one node, ours.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "profiler/comm/comm.h"
#include "profiler/comm/transport.h"

namespace arena {

/// The value of an environment variable; null where it is not set.
using Lookup = std::function<const char*(const char*)>;

/// Whether a launcher started this process as one of several. Refuses tasks of srun that could not
/// find each other.
Result<bool> is_launched(const Lookup&);
/// Ranks must lie in blocks, the same number on each node.
Result<CommWorld> world_of(int rank, const std::vector<int>& first_on_node);
/// Opens arena-profiler-mpi.so beside this program; collective.
Result<std::unique_ptr<Transport>> open_mpi();

}  // namespace arena
