// SPDX-License-Identifier: GPL-2.0-or-later
// Reading slurmctld: nodes with their free GPUs, Arena's jobs, carriers. Callers hold the locks.
#pragma once

#include "plugin/sched/host/host.h"

namespace arena {

bool slurm_layout_is_sound(std::string* what);
bool slurm_has_work(HostMode mode);
bool slurm_has_reservations();
/// Takes the locks itself, several times: none is held longer than about slice_ms, but for one pass
/// over nodes and jobs. See Host::collect(); lent_in: see node_choices().
/// since_s: time of the last reading, 0 = there was none.
ClusterView read_cluster(const Host::KnowsRecord& knows, const std::string& lent_in, HostMode mode,
                         std::int64_t slice_ms, double since_s);

}  // namespace arena
