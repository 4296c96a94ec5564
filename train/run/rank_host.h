// SPDX-License-Identifier: GPL-2.0-or-later
// Where a rank runs: the names that Slurm has for its node and GPU, and the processors that it may
// share with other ranks. All ranks know it of all.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/comm/comm.h"
#include "train/core/shape.h"
#include "train/run/device_choice.h"

namespace arena::train {

struct RankHost {
    std::string node;        ///< SLURMD_NODENAME, else the host's name
    Index gpu = -1;          ///< as Slurm counts the node's GRES; -1: not known
    std::string machine;     ///< one kernel, however many nodes pretend to be there
    std::string processors;  ///< that it may run on, "1" or "0" each
    std::string device;      ///< its type
    bool operator==(const RankHost&) const = default;
};

/// Of `local` ranks before this one on its node: that entry of SLURM_STEP_GPUS, else of
/// CUDA_VISIBLE_DEVICES, or the only one; -1 where neither is a list of such numbers.
Index gpu_of_rank(const Environment&, int local);
/// Of this process. Collective.
RankHost find_rank_host(const Environment&, Comm& world, const std::string& device);
/// Collective; in the order of ranks.
std::vector<RankHost> share_hosts(Comm&, const RankHost&);

/// Ranks whose products disturb each other: those of a machine with fewer processors than its
/// ranks' threads. They take turns.
struct Turns {
    std::vector<int> of;  ///< of each rank, from 0
    int count = 1;        ///< more than 1: some machine is crowded
};
Turns turns_of(const std::vector<RankHost>&, int threads);

}  // namespace arena::train
