// SPDX-License-Identifier: GPL-2.0-or-later
// Which GPU of the node a rank computes on, as Slurm counts its GRES: a process sees a part of
// them, under numbers of its own.
#pragma once

#include <cstdint>
#include <string_view>

namespace arena::watch {

/// device: CUDA's ordinal in the process, -1 where its library did not say. visible:
/// CUDA_VISIBLE_DEVICES of the process; granted: SLURM_STEP_GPUS, else SLURM_JOB_GPUS. -1: not
/// known, for nobody said which of several it is, or the lists can be read in two ways.
std::int64_t gpu_index(std::int64_t device, std::string_view visible, std::string_view granted);

}  // namespace arena::watch
