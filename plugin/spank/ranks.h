// SPDX-License-Identifier: GPL-2.0-or-later
// What torch.distributed and its kin read of a rank that srun started: RANK, LOCAL_RANK,
// WORLD_SIZE, MASTER_ADDR, MASTER_PORT. torchrun sets them for its own ranks; Slurm does not.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace arena {

struct StepTask {
    std::int64_t job = 0, step = 0;
    std::int64_t rank = 0, local_rank = 0, world_size = 0;
    std::string launcher;  ///< ARENA_LAUNCHER of the job
};
/// Whether srun starts the ranks of this launcher; false of what is no launcher.
bool starts_ranks(const std::string& launcher);

/// All but MASTER_ADDR, which is one for all tasks of a node (request/rendezvous.h). None where the
/// launcher sets them itself, or is none.
std::vector<std::pair<std::string, std::string>> rank_variables(const StepTask&);

}  // namespace arena
