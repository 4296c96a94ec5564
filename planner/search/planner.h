// SPDX-License-Identifier: GPL-2.0-or-later
// The planner: from a model, a batch and GPU types to grids, plans, memory and time. Pure
// functions; the plug-in, the command, the profiler (operator list) and later the simulator call
// the same ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/profile.h"
#include "core/values.h"
#include "planner/hardware/calibration.h"
#include "planner/search/budget.h"
#include "request/launchers.h"

namespace arena {

/// One GPU type a job may take, with how many GPUs could be had.
struct GpuPool {
    std::string gpu_type;  ///< name used in grids (GRES type, or hardware entry in `arena plan`)
    GpuType hardware;
    std::int64_t gpus_per_node = 8;  ///< of the site's nodes
    std::int64_t max_gpus = 8;       ///< in the cluster (or asked)
    ProfileTable profile;            ///< measured operators of this type; empty = analytic
    std::string framework = {};      ///< of the calibration table; unknown = its default
    std::optional<CostConstants> constants = {};  ///< instead of the built-in table's
};

struct PlanQuery {
    Model model;
    std::int64_t global_batch = 1;  ///< samples per iteration
    std::int64_t min_gpus = 1;
    std::int64_t max_gpus = 1;  ///< <= 0: as many as each pool has
    PlanPin pin;                ///< zero fields are free
    std::vector<GpuPool> pools;
    Capabilities can = {};  ///< of the job's launcher: which plans may stand for a grid
    /// Of a setting (micro-batches, recompute, ZeRO) with more plans than this of its first stages
    /// that may become the best of mixed stages, none is looked at.
    std::int64_t max_partial_plans = 200'000;
};

struct GridResult {
    Grid grid;
    bool feasible = false;
    std::string reason;  ///< why infeasible: memory, batch, layers, heads
    Plan plan;           ///< proxy plan when feasible
    Estimate estimate;
    std::int64_t candidates = 0;  ///< plans of the grid, counted before their layers are dealt
    /// The launcher can be told stages that differ in dp and tp, but the grid is beyond
    /// mixed_stages_bound(): only uniform stages were looked at.
    bool uniform_only = false;
    /// Of stages that differ in dp and tp some were not looked at: a setting that may have a better
    /// plan than all found has more than max_partial_plans.
    bool mixed_in_part = false;
    /// The budget was spent before all plans of the grid were looked at: there may be a faster one,
    /// or one that fits.
    bool in_part = false;
};

/// Stages * GPUs * layers^2 of a grid up to which plan_grids() looks at stages that differ in dp
/// and tp: seconds of search. Lower where the layers differ, too.
std::int64_t mixed_stages_bound(const Model&);

// Estimates are `profiled` when at least 90 % of the compute time comes from measured shapes or
// near ones (planner/operators/cost.h), else `analytic`; error_bound weighs the evidence of each
// part.

/// Every grid (type x nodes x GPUs per node x stages) with its proxy plan = least estimated
/// iteration time among plans that fit memory. Same number of GPUs on every node. Deterministic
/// order. With a budget each grid has its share of it, and what it leaves goes to those after it;
/// without one, as everywhere below, the search goes to its end.
std::vector<GridResult> plan_grids(const PlanQuery&);
std::vector<GridResult> plan_grids(const PlanQuery&, PlanBudget&);

/// For each (GPU type, GPU count) the plans that no other beats in both seconds and bytes per GPU,
/// fastest first; after them the grids that are not feasible.
std::vector<GridResult> plan_pareto(const PlanQuery&);
std::vector<GridResult> plan_pareto(const PlanQuery&, PlanBudget&);

/// The best feasible grid per (GPU type, GPU count), best samples/s first.
std::vector<Offer> make_offers(const PlanQuery&);
/// Of grids that plan_grids() returned.
std::vector<Offer> offers_of(std::vector<GridResult>);

/// Prices exactly this plan on this grid, also when it does not fit: memory_bytes_per_gpu is the
/// device's peak with what the framework reserves, so it fits iff <= pool.hardware.memory_bytes.
/// Errors: layers, GPUs, batch, heads or channels that the plan does not share out evenly, a
/// precision that the type lacks.
Result<Estimate> price_plan(const Model&, std::int64_t global_batch, const Grid&, const Plan&,
                            const GpuPool&);

/// The plan, one that price_plan() takes, with the fastest deal of layers that its launcher can be
/// told and that fits memory, if one does. Layers that are alike, mixed and interleaved stages stay
/// as they are.
Plan with_best_layers(const Model&, std::int64_t global_batch, const Grid&, Plan, const GpuPool&,
                      LayerSplit);
Plan with_best_layers(const Model&, std::int64_t global_batch, const Grid&, Plan, const GpuPool&,
                      LayerSplit, PlanBudget&);

/// Operators that plan_grids() would look up for this query, most valuable first, each once: small
/// shards (tp 1, micro-batch 1; tp 2; ...) before large ones, in each the operators of a layer by
/// estimated time, then those of embedding and head, then whole layers of the smallest and the
/// largest micro-batch; so that a prefix is a basis to scale the rest from. What arena-profiler
/// measures. Emulated types: fp32 whatever the model's precision. With a budget that is spent
/// early, some of them.
std::vector<OpShape> operator_list(const PlanQuery&);
std::vector<OpShape> operator_list(const PlanQuery&, PlanBudget&);

/// All grids of the request's GPU type and range: what a profile run measures for, wherever it is
/// asked. Convolutions are whole in it: few launchers can split them, and those of a split network
/// are scaled from these.
PlanQuery profile_query(const ProfileRequest&, const GpuType& hardware);

/// Model readers. `text` is a Hugging Face config.json or our YAML (arena-model(5)), at
/// most 64 KiB. Unknown model_type/family is refused with what is accepted.
Result<Model> parse_model(std::string_view text, std::string_view name);
/// Built-in models by name; ErrorCode::usage with the nearest names when unknown.
Result<Model> find_zoo_model(std::string_view name);
std::vector<std::string> zoo_names();
/// Ranges, divisibility (heads, kv_heads, hidden); every reader ends here.
Status check_model(const Model&);

/// Hardware entries: built-in hardware.yaml (installed in pkgdatadir) overridden/extended by a
/// file.
Result<std::vector<GpuType>> load_hardware(const std::string& extra_file);
Result<std::vector<GpuType>> parse_hardware(std::string_view text, std::string_view name);
Result<GpuType> find_hardware(const std::vector<GpuType>&, std::string_view name_or_alias);

}  // namespace arena
