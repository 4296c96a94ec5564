// SPDX-License-Identifier: GPL-2.0-or-later
// Which rank of which run a process is, by what its launcher put into the environment. Open MPI and
// torchrun start ranks below Slurm's own tasks, whose variables these ranks inherit: they are asked
// first.
#pragma once

#include <cstdint>
#include <optional>

namespace arena::watch {

struct RankId {
    std::uint64_t job = 0;   ///< Slurm's; 0: none
    std::uint32_t step = 0;  ///< Slurm's, else a hash of what the launcher calls the run
    std::uint32_t life = 0;  ///< restarts of the job before this one
    std::uint32_t rank = 0;
    std::uint32_t local_rank = 0;
    std::uint32_t ranks = 0;  ///< 0: not said
    std::uint32_t node = 0;
    bool operator==(const RankId&) const = default;
};

/// Nothing: no launcher says that this is a rank. `get` is getenv(3) or what stands for it.
std::optional<RankId> rank_of_environment(const char* (*get)(const char*));

}  // namespace arena::watch
