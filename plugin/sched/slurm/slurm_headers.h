// SPDX-License-Identifier: GPL-2.0-or-later
// The one place that includes Slurm's internal headers for sched_arena.so, and that says which
// Slurm releases this source was written for. Standard headers come first: Slurm's macros collide
// with them.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
#include "slurm/slurm.h"
#include "slurm/slurm_errno.h"
#include "slurm/slurm_version.h"
#include "src/common/assoc_mgr.h"
#include "src/common/bitstring.h"
#include "src/common/gres.h"
#include "src/common/list.h"
#include "src/common/log.h"
#include "src/common/node_conf.h"
#include "src/common/plugin.h"
#include "src/common/slurm_priority.h"
#include "src/common/slurm_protocol_api.h"
#include "src/common/xmalloc.h"
#include "src/common/xstring.h"
#include "src/slurmctld/slurmctld.h"
// need slurmctld.h before them
#include "src/slurmctld/acct_policy.h"
#include "src/slurmctld/agent.h"
#include "src/slurmctld/fed_mgr.h"
#include "src/slurmctld/job_scheduler.h"
#include "src/slurmctld/licenses.h"
#include "src/slurmctld/locks.h"
#include "src/slurmctld/node_scheduler.h"
#include "src/slurmctld/reservation.h"
#include "src/slurmctld/srun_comm.h"
#include "src/slurmctld/state_save.h"
}

#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(22, 5, 0) || \
    SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
#error "sched/arena knows Slurm 22.05 only: its internal calls changed in 23.02"
#endif

namespace arena {
/// "22.05.8": the release whose headers this was built with.
inline std::string built_for() {
    return std::to_string(SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER)) + "." +
           (SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER) < 10 ? "0" : "") +
           std::to_string(SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER)) + "." +
           std::to_string(SLURM_VERSION_MICRO(SLURM_VERSION_NUMBER));
}
}  // namespace arena
