// SPDX-License-Identifier: GPL-2.0-or-later
// Reading slurmctld: nodes with their free GPUs, Arena's jobs, carriers. Callers hold the locks.
#pragma once

#include "plugin/sched/host.h"

namespace arena {

bool slurm_layout_is_sound(std::string* what);
bool slurm_has_work();
bool slurm_has_reservations();
/// Under the write locks where there are reservations, else the read locks.
ClusterView read_cluster();

}  // namespace arena
