// SPDX-License-Identifier: GPL-2.0-or-later
// The planner: from a model, a batch and GPU types to grids, plans, memory and time. Pure
// functions; the plug-ins, the command, the profiler (operator list) and the simulator call
// the same ones.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "planner/search/budget.h"
#include "planner/search/query.h"

namespace arena {

/// Stages * GPUs * layers^2 of a grid up to which plan_grids() looks at stages that differ in dp
/// and tp: seconds of search. Lower where the layers differ, too.
std::int64_t mixed_stages_bound(const Model&);

// Estimates are `profiled` when at least 90 % of the compute time comes from measured shapes or
// near ones (planner/operators/cost.h), else `analytic`; error_bound weighs the evidence of each
// part.

/// Every grid (type x nodes x GPUs per node x stages) with its proxy plan = least estimated
/// iteration time among plans that fit memory. Same number of GPUs on every node; those of
/// other_layouts() only where they are feasible, as is one for all uneven splits of a count where
/// the query wants that. A grid whose plan has a segment comes again, behind all others, with the
/// fastest plan that needs no domain, priced without one. Deterministic order. With a budget each
/// grid has its share of it, and what it leaves goes to those after it; without one, as everywhere
/// below, the search goes to its end.
std::vector<GridResult> plan_grids(const PlanQuery&);
std::vector<GridResult> plan_grids(const PlanQuery&, PlanBudget&);

/// For each (GPU type, GPU count) the plans that no other beats in both seconds and bytes per GPU,
/// fastest first; after them the grids that are not feasible.
std::vector<GridResult> plan_pareto(const PlanQuery&);
std::vector<GridResult> plan_pareto(const PlanQuery&, PlanBudget&);

/// The best feasible grid per (GPU type, nodes, GPUs per node), best samples/s first; where that
/// one's plan has a segment, the best without a segment, too.
std::vector<Offer> make_offers(const PlanQuery&);
/// Of grids that plan_grids() returned.
std::vector<Offer> offers_of(std::vector<GridResult>);
/// Of grids without any plan: of each GPU type what stands in the way of its largest grid, which
/// comes nearest. "memory: ... (8xa100); ..."
std::string why_none(const std::vector<GridResult>&);

/// Whether a plan of the query fits memory: micro-batches of one sample are looked at, unless they
/// are pinned. False where the budget ends first.
bool fits_memory(const PlanQuery&, PlanBudget&);

/// Prices exactly this plan on this grid, also when it does not fit: memory_bytes_per_gpu is the
/// device's peak with what the framework reserves, so it fits iff <= pool.hardware.memory_bytes.
/// Errors: layers, GPUs, batch, heads or channels that the plan does not share out evenly, a
/// precision that the type lacks.
Result<Estimate> price_plan(const Model&, std::int64_t global_batch, const Grid&, const Plan&,
                            const GpuPool&);

/// Sets slower and segment of a grid that has a plan and an estimate of price_plan().
void price_spans(const Model&, std::int64_t global_batch, const GpuPool&, GridResult&);

/// The plan, one that price_plan() takes, with the fastest partition of layers that its launcher
/// can be told and that fits memory, if one does. Equal layers, mixed and
/// interleaved stages stay as they are.
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

}  // namespace arena
