// SPDX-License-Identifier: GPL-2.0-or-later
// `arena plan --array`: what siblings of a job array could do with the GPUs, and whether they share
// a pipeline.
#pragma once

#include "cli/planning/plan_input.h"

namespace arena::cli {

/// Exit code. One pool, one range of GPUs, no fixed plan.
int plan_array(const Globals&, const PlanOptions&, const Model&, const std::vector<GpuRange>&,
               const std::vector<GpuPool>&, const Capabilities&);

}  // namespace arena::cli
