// SPDX-License-Identifier: GPL-2.0-or-later
// Iteration times for `arena simulate --planner` and `arena trace generate --models`: what the
// planner says of a trace's models on a cluster, in the place of a table of measured ones. No other
// data is needed.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/common/cli.h"
#include "core/model.h"
#include "sim/inputs.h"

namespace arena::cli {

struct PlannerOptions {
    bool on = false;
    std::string hardware;          ///< more hardware entries; as `arena plan --hardware`
    std::string launcher = "env";  ///< whose plans; as `arena plan --launcher`
    std::int64_t max_gpus = 64;    ///< largest offer
    /// GPU types of the cluster without a hardware entry are left out, where others have one; else
    /// the first of them is refused.
    bool leaves_out = false;
};

/// Those of the types that have a hardware entry, as PlannerOptions::leaves_out has it.
Result<std::vector<std::string>> known_types(const Globals&, const std::vector<std::string>& types,
                                             const PlannerOptions&);

/// A model and batch of a trace; `where` is the place that a refusal names.
struct PlannedModel {
    std::string model;
    std::int64_t batch = 0;
    std::string where;
};

/// A name of a trace: of the built-in list as it is ("gpt2-xl"), or family__size as Arena's traces
/// have it
/// ("moe__2.4B" is moe-2.4b; "bert__2.6B" the GPT of that size in Zheng et al., OSDI 2022, table
/// 4).
Result<Model> trace_model(const std::string& name);

/// Each pair once: the models and batches that a trace has, by the place where they come first.
std::vector<PlannedModel> models_of(const std::vector<sim::TraceJob>&,
                                    const std::string& trace_name);

/// One row per (model, batch, GPU type, GPU count) with a plan that fits: the best, with its plan,
/// and where that one needs a rack of the cluster the best that needs none.
/// GPU types of the cluster are hardware entries, aliases of them, or GRES types of arena.yaml; a
/// type's nodes count as wide as its widest. inter_gbps_per_node, where the cluster has it, is the
/// network's rate, of which collectives reach three quarters. O(models x types x counts) plan
/// searches: seconds.
Result<sim::Throughputs> plan_throughputs(const Globals&, const sim::Cluster&,
                                          const std::vector<PlannedModel>&, const PlannerOptions&);

}  // namespace arena::cli
