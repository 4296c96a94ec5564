// SPDX-License-Identifier: GPL-2.0-or-later
// The inputs of `arena plan`: model, hardware, profiles and the --fixed plan, read and checked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/common/cli.h"
#include "cli/planning/plan_store.h"
#include "planner/search/planner.h"

namespace arena::cli {

struct PlanOptions {
    std::string model, model_ignore;  ///< words of its text to pass over, joined by ','
    std::int64_t global_batch = 0;
    std::int64_t seq_length = 0;  ///< 0 = the model's
    std::int64_t lora = 0;        ///< rank of adapters; 0 = as the model says
    std::vector<std::string> gpu_types;
    std::vector<std::string> gpus;   ///< "8" or "4-16"
    std::int64_t gpus_per_node = 0;  ///< 0 = the hardware's
    /// Of the network: nodes of a leaf and of an NVLink domain, leaves of a pod; 0 = any number,
    /// of a domain none. Oversubscription above a leaf, then above a pod; empty = the site's.
    std::int64_t leaf_nodes = 0, pod_leaves = 0, domain_nodes = 0;
    std::vector<double> oversubscription;
    std::string hardware, calibration, profiles, fixed;
    std::string launcher = "env";  ///< of request/launchers.h, or "any"
    bool pareto = false;
    std::int64_t array = 0;  ///< siblings of a job array; 0 = one job
    std::size_t top = 0;     ///< 0 = all
    double budget_s = 0.8;   ///< CPU time of the search; 0 = to its end
};

struct GpuRange {
    std::int64_t min = 1, max = 1;
};

/// What --fixed says. Grammar: key=value joined by commas; pp, dp, tp and micro_batch are required.
/// Or a plan as it is shown everywhere: pp2,dp2,tp1,mb4x16,full; without the x16, what it does not
/// say of recompute, ZeRO and sequence parallelism is what is fastest.
struct FixedPlan {
    std::int64_t pp = 0, dp = 0, tp = 0, micro_batch = 0, zero = 0;
    std::int64_t vpp = 1, cp = 1, ep = 1, etp = 1;  ///< each number at most limits::gpus
    Recompute recompute = Recompute::none;
    Schedule schedule = Schedule::one_f_one_b;
    bool sequence_parallel = false;
    std::int64_t hsdp = 0;               ///< 0 = one group
    std::int64_t num_micro_batches = 0;  ///< 0 = what the batch makes of it
    bool as_shown = false;               ///< the second grammar: partitioned as a search would
    bool free_recompute = false, free_zero = false, free_sequence_parallel = false;
    [[nodiscard]] PlanPin pin() const;
    [[nodiscard]] std::int64_t gpus() const { return pin().gpus(); }
};
Result<FixedPlan> parse_fixed(std::string_view text);
/// The plan itself, or one for each setting that is free and that the launcher can be told.
std::vector<FixedPlan> settings_of(const FixedPlan&, const Model&, const Capabilities&);
/// Layers as even as the launcher can be told, see spread_layers(); the batch must divide by dp *
/// micro_batch.
Result<Plan> make_plan(const FixedPlan&, const Model&, std::int64_t global_batch, LayerSplit);

/// A zoo name, or a file when the word has a '/', ends in .json, .yaml or .yml.
Result<Model> read_model(const PlanOptions&);
/// What the launcher can be told; "any" = every plan that the planner can price.
Result<Capabilities> read_launcher(const PlanOptions&);
/// Without its version: whose constants and reports count.
std::string launcher_name(const PlanOptions&);
Result<std::vector<GpuRange>> read_gpu_ranges(const PlanOptions&);
/// The store that --profiles names; where it names none, one of nothing.
Result<PlanStore> open_profiles(const PlanOptions&);
/// One pool per --gpu-type: a hardware entry, an alias of one, or a GRES type of arena.yaml; with
/// the constants of the launcher.
Result<std::vector<GpuPool>> read_pools(const Globals&, const PlanOptions&, const PlanStore&);
/// The same, with open_profiles() for itself alone.
Result<std::vector<GpuPool>> read_pools(const Globals&, const PlanOptions&);
/// Corrects estimates by what jobs of this model, batch and launcher reported.
void correct_by_reports(const PlanStore&, const PlanOptions&, const Model&,
                        const std::vector<GpuPool>&, std::vector<GridResult>&);

}  // namespace arena::cli
