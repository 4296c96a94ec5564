// SPDX-License-Identifier: GPL-2.0-or-later
// Limits for which Slurm itself refuses a job at submission, read from its records. Arena gives a
// job its shape later, so that Slurm's own check at submission sees one node without a GPU.
#pragma once

#include <vector>

#include "plugin/common/slurm_compat.h"
#include "plugin/job_submit/submit_rules.h"

namespace arena {

/// Of the QOS that the job will have, its partitions' QOS and its associations, where one of these
/// QOS says DenyOnLimit and limits are enforced; of its partitions, with EnforcePartLimits. Takes
/// the read locks of associations; the caller holds those of jobs and partitions.
std::vector<HardLimit> hard_limits(const job_desc_msg_t* job,
                                   const std::vector<const part_record_t*>& parts);

}  // namespace arena
