// SPDX-License-Identifier: GPL-2.0-or-later
// What `arena simulate` and `arena trace` read: files into a workload, with the file named in
// messages.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "cli/simulation/planned_throughputs.h"
#include "sim/loans/inference.h"
#include "sim/workload.h"

namespace arena::cli {

struct WorkloadFiles {
    std::string cluster, trace, throughputs;
    PlannerOptions planner;  ///< instead of throughputs
};

Result<sim::Cluster> read_cluster(const std::string& path);
Result<sim::Throughputs> read_throughputs(const std::string& path);
Result<sim::InferenceCurve> read_inference(const std::string& path);
/// With PlannerOptions::leaves_out, jobs with a model on GPUs of a type without a hardware entry
/// are replayed as requested; `as_requested`: how many, by type.
Result<sim::Workload> read_workload(const Globals&, const WorkloadFiles&, sim::WorkloadOptions,
                                    std::map<std::string, std::int64_t>* as_requested = nullptr);

}  // namespace arena::cli
