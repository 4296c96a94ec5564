// SPDX-License-Identifier: GPL-2.0-or-later
// The only file that includes Slurm's internal headers. They move from release to release: whether
// one is there is asked, not which release it is. What differs in them is in slurm_compat.h, which
// is what everybody else includes. Standard headers come first: Slurm's macros collide with them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

extern "C" {
#include "slurm/slurm.h"
#include "slurm/slurm_errno.h"
#include "slurm/slurm_version.h"
#if __has_include("src/common/extra_constraints.h")
#define operator operator_  // a member's name there
#include "src/common/extra_constraints.h"
#undef operator
#endif
#include "src/common/assoc_mgr.h"
#include "src/common/bitstring.h"
#if __has_include("src/common/job_features.h")
#include "src/common/job_features.h"
#endif
#if __has_include("src/common/job_state_reason.h")
#include "src/common/job_state_reason.h"
#endif
#include "src/common/list.h"
#include "src/common/log.h"
#include "src/common/node_conf.h"
#include "src/common/plugin.h"
#include "src/common/slurm_protocol_api.h"
#include "src/common/xmalloc.h"
#include "src/common/xstring.h"
#include "src/slurmctld/slurmctld.h"
// In a header of its own since 24.05.
extern int step_partial_comp(step_complete_msg_t* req, uid_t uid, bool finish, int* rem,
                             std::uint32_t* max_rc);
#if __has_include("src/interfaces/gres.h")
#include "src/interfaces/cred.h"
#include "src/interfaces/gres.h"
#include "src/interfaces/job_submit.h"
#include "src/interfaces/priority.h"
#include "src/interfaces/topology.h"
#else
#include "src/common/gres.h"
#include "src/common/slurm_priority.h"
#include "src/common/slurm_topology.h"
#include "src/slurmctld/job_submit.h"
#endif
// need slurmctld.h before them
#include "src/slurmctld/acct_policy.h"
#include "src/slurmctld/agent.h"
#include "src/slurmctld/fed_mgr.h"
#include "src/slurmctld/job_scheduler.h"
#include "src/slurmctld/licenses.h"
#include "src/slurmctld/locks.h"
#include "src/slurmctld/node_scheduler.h"
#include "src/slurmctld/reservation.h"
#include "src/slurmctld/state_save.h"

// of srun_comm.h: tells salloc of its nodes
void srun_allocate(job_record_t*);
}
