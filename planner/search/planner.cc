// SPDX-License-Identifier: GPL-2.0-or-later
// The planner's four questions: which grids and how fast (plan_grids), what a job could take
// (make_offers), what exactly this plan costs (price_plan), what is worth measuring
// (operator_list).
#include "planner/search/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "base/text.h"
#include "planner/hardware/hardware.h"
#include "planner/models/model.h"
#include "planner/operators/whole_layer.h"
#include "planner/search/grids.h"
#include "planner/search/mixed_search.h"
#include "planner/search/search.h"
#include "planner/search/spans.h"

namespace arena {

namespace {

GridResult infeasible(const GpuPool& pool, std::int64_t gpus, std::string reason) {
    const NodeShape shape =
        node_shape(std::max<std::int64_t>(1, gpus), std::max<std::int64_t>(1, pool.gpus_per_node));
    GridResult result;
    result.grid = {pool.gpu_type, shape.nodes, shape.gpus_per_node, 1};
    result.reason = std::move(reason);
    return result;
}

std::string no_precision(const GpuType& type, Precision precision) {
    return fmt::format("{} does not compute in {}; it has {}", type.name, to_string(precision),
                       precisions_of(type));
}

std::string no_count_reason(const PlanQuery& query, const GpuPool& pool) {
    if (pool.max_gpus < query.min_gpus)
        return fmt::format("gpus: at least {} wanted, {} of {} there", query.min_gpus,
                           pool.max_gpus, pool.gpu_type);
    return fmt::format("plan: no count from {} to {} GPUs takes the pinned {}", query.min_gpus,
                       query.max_gpus > 0 ? std::min(query.max_gpus, pool.max_gpus) : pool.max_gpus,
                       to_string(query.pin));
}

using StageCounts = std::vector<std::int64_t>;

/// Of what is left of a budget, for the one of `all` that comes after `done`.
double share_of(std::size_t done, std::size_t all) { return 1 / static_cast<double>(all - done); }

/// Of a pool's budget, for counts on as few nodes as they need: what a job goes by first.
constexpr double share_of_fewest_nodes = 0.6;

/// Calls visit(search, shape, stage counts) for every shape.
template <typename Visit>
void visit_shapes(const PlanQuery& query, PoolSearch& search, const std::vector<NodeShape>& shapes,
                  PlanBudget& budget, Visit visit) {
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const PlanBudget::Slice slice(budget, share_of(i, shapes.size()));
        visit(search, shapes[i], stage_counts(query, shapes[i].gpus()));
    }
}

/// A count that the pool's nodes cannot give with the same number on each is had in pieces, where
/// it can be.
void leave_out_what_pieces_replace(const GpuPool& pool, std::vector<GridResult>& results) {
    std::vector<std::int64_t> counts;
    for (const GridResult& grid : results)
        if (grid.grid.gpu_type == pool.gpu_type && grid.grid.is_uneven())
            counts.push_back(grid.grid.gpus());
    std::erase_if(results, [&](const GridResult& grid) {
        return grid.grid.gpu_type == pool.gpu_type && !grid.grid.is_uneven() &&
               grid.grid.nodes > pool.nodes &&
               std::find(counts.begin(), counts.end(), grid.grid.gpus()) != counts.end();
    });
}

/// Calls visit(search, shape, stage counts) for every number of GPUs, or says why there is none;
/// then for the same numbers on more nodes, of which what is infeasible is left out: it says
/// nothing that the first did not.
template <typename Visit>
void visit_pool(const PlanQuery& query, const GpuPool& pool, PlanBudget& budget,
                std::vector<GridResult>& results, Visit visit) {
    const auto context = prepare(query.model, pool, query.global_batch);
    if (!context) {
        results.push_back(
            infeasible(pool, query.min_gpus,
                       "precision: " + no_precision(pool.hardware, query.model.precision)));
        return;
    }
    PoolSearch search(query, *context, budget);
    const std::vector<NodeShape> shapes = node_shapes(query, pool);
    if (shapes.empty())
        results.push_back(infeasible(pool, query.min_gpus, no_count_reason(query, pool)));
    std::vector<NodeShape> others;
    for (const NodeShape& shape : shapes)
        for (const NodeShape& other : other_layouts(query, pool, shape)) others.push_back(other);
    for (const NodeShape& shape : shapes)
        if (const auto other = uneven_layout(query, pool, shape.gpus())) others.push_back(*other);
    {
        const PlanBudget::Slice slice(budget, others.empty() ? 1 : share_of_fewest_nodes);
        visit_shapes(query, search, shapes, budget, visit);
    }
    const std::size_t fewest = results.size();
    visit_shapes(query, search, others, budget, visit);
    results.erase(
        std::remove_if(results.begin() + static_cast<std::ptrdiff_t>(fewest), results.end(),
                       [](const GridResult& grid) { return !grid.feasible && !grid.in_part; }),
        results.end());
    leave_out_what_pieces_replace(pool, results);
}

/// Calls visit(search, shape, stage counts) for every number of GPUs of every pool.
template <typename Visit>
void visit_pools(const PlanQuery& query, PlanBudget& budget, std::vector<GridResult>& results,
                 Visit visit) {
    for (std::size_t i = 0; i < query.pools.size(); ++i) {
        const PlanBudget::Slice slice(budget, share_of(i, query.pools.size()));
        visit_pool(query, query.pools[i], budget, results,
                   [&](PoolSearch& search, const NodeShape& shape, const StageCounts& counts) {
                       visit(query.pools[i], search, shape, counts);
                   });
    }
}

/// Among the grids of one pool and one number of GPUs: plans with mixed stages stand for their grid
/// where they beat all uniform plans of all of them. Others would never be offered.
void mix_stages(const PlanQuery& query, const PoolContext& context, PlanBudget& budget,
                std::span<GridResult> grids) {
    double best_s = std::numeric_limits<double>::infinity();
    for (const GridResult& grid : grids)
        if (grid.feasible) best_s = std::min(best_s, grid.estimate.iteration_s);
    MixedSearch mixed(query, context, budget);
    std::vector<double> left_out_s;
    for (GridResult& grid : grids) {
        const PlanBudget::Slice slice(budget, share_of(left_out_s.size(), grids.size()));
        grid.uniform_only = mixed.is_too_large(grid.grid);
        const bool is_better = mixed.search(grid.grid, best_s, grid.plan, grid.estimate);
        left_out_s.push_back(mixed.left_out_s());
        grid.in_part = grid.in_part || mixed.cut_short();
        if (!is_better) continue;
        best_s = grid.estimate.iteration_s;
        grid.feasible = true;
        grid.reason.clear();
    }
    for (std::size_t i = 0; i < grids.size(); ++i) grids[i].mixed_in_part = left_out_s[i] < best_s;
}

bool is_data_parallel(const Plan& plan) {
    return !is_mixed(plan) && plan.pp() == 1 && plan.tp() == 1 && plan.cp == 1 && plan.ep == 1;
}

/// Of one stage; no faster than where the same number is on each of several nodes.
void add_uneven(const GpuPool& pool, PoolSearch& search, const NodeShape& shape,
                std::vector<GridResult>& results) {
    GridResult found = search.search(shape, 1);
    if (!found.feasible || !is_data_parallel(found.plan)) return;
    price_without_domain(search.context(), found);
    for (const GridResult& other : results)
        if (other.feasible && other.grid.gpu_type == pool.gpu_type && other.grid.nodes > 1 &&
            other.grid.gpus() == shape.gpus() && is_data_parallel(other.plan) &&
            other.estimate.iteration_s > found.estimate.iteration_s) {
            found.estimate = other.estimate;
            found.slower = other.slower;
        }
    set_split(found.grid, fullest_split(shape.gpus(), pool.gpus_per_node));
    results.push_back(std::move(found));
}

/// Pairs that give the profiler a basis early: small shards first, tp before micro-batch.
bool measured_before(const ShardShape& a, const ShardShape& b) {
    const auto work = [](const ShardShape& s) { return s.tp * s.micro_batch * s.micro_batch; };
    return std::pair(work(a), a.tp) < std::pair(work(b), b.tp);
}

using Weighted = std::vector<std::pair<double, OpShape>>;

/// The layers' operators by their seconds in the mean layer, then those of embedding and head. What
/// cannot be measured is left out.
Weighted weighted_operators(const PoolContext& context, const Pricer& pricer,
                            const ShardShape& shape) {
    std::map<OpShape, double> layer, ends;
    const auto add = [&](std::map<OpShape, double>& seconds, const std::vector<OpCount>& list,
                         double weight) {
        for (const OpCount& op : list)
            if (op.shape.kind != OpKind::custom)
                seconds[op.shape] += weight * op.count * pricer.price(op.shape).seconds;
    };
    const LayerList& layers = context.layers->list();
    for (std::size_t k = 0; k < layers.kinds.size(); ++k) {
        const ShardOperators ops =
            shard_operators(context.model, context.precision, shape, layers.kinds[k]);
        const double share =
            static_cast<double>(layers.count_of(k)) / static_cast<double>(context.model.layers);
        add(layer, ops.layer_forward, share);
        add(layer, ops.layer_backward, share);
        add(layer, {{ops.optimizer, 1}}, share);
        if (k > 0) continue;
        add(ends, ops.embedding, 1);
        add(ends, ops.head, 1);
    }
    Weighted list;
    for (const auto* group : {&layer, &ends}) {
        const auto begin = static_cast<std::ptrdiff_t>(list.size());
        for (const auto& [op, seconds] : *group) list.emplace_back(seconds, op);
        std::stable_sort(list.begin() + begin, list.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
    }
    return list;
}

/// Keeps the first occurrence of each operator over all pools and shards.
struct OperatorSet {
    std::set<OpShape> seen;
    std::vector<OpShape> list;
    void add(const Weighted& operators) {
        for (const auto& [seconds, shape] : operators)
            if (seen.insert(shape).second) list.push_back(shape);
    }
};

/// Shards whose layers are measured whole: of each (tp, sequence parallelism) those of the smallest
/// and of the largest micro-batch; the others lie between them.
bool measures_layers_of(const ShardShape& shape, const std::vector<ShardShape>& all) {
    bool has_smaller = false, has_larger = false;
    for (const ShardShape& other : all) {
        if (other.tp != shape.tp || other.sequence_parallel != shape.sequence_parallel) continue;
        has_smaller = has_smaller || other.micro_batch < shape.micro_batch;
        has_larger = has_larger || other.micro_batch > shape.micro_batch;
    }
    return !has_smaller || !has_larger;
}

/// Naming and pricing a shard's operators takes as long as so many steps of a search.
constexpr std::int64_t operator_steps = 2000;

/// Whole layers of a shard; an emulated type is a CPU, which launches nothing as a graph.
void add_whole_layers(const PoolContext& context, const ShardShape& shape, OperatorSet& set) {
    for (const LayerKind& kind : context.layers->list().kinds)
        for (const Pass pass : {Pass::forward, Pass::backward}) {
            const auto layer = whole_layer(context.model, context.precision, shape, kind, pass);
            if (!layer) continue;
            set.add({{0, *layer}});
            if (!context.pool.hardware.emulated) set.add({{0, as_graph(*layer)}});
        }
}

/// Groups of replicas share what ZeRO shards.
Status check_sharding(const Plan& plan) {
    if (plan.zero_stage < 0 || plan.zero_stage > 3) return usage_error("zero_stage must be 0 to 3");
    const bool is_sound =
        plan.hsdp == 0 || (plan.hsdp > 0 && plan.dp() % plan.hsdp == 0 && plan.zero_stage > 0 &&
                           plan.ep <= 1 && !is_mixed(plan));
    return is_sound
               ? Status(Done{})
               : usage_error(fmt::format("hsdp{} wants a dp that is a multiple of it, the same "
                                         "on each stage, ZeRO 1 to 3, and ep1",
                                         plan.hsdp));
}

/// A schedule that splits backwards.
Status check_schedule(const Plan& plan) {
    if (plan.schedule == Schedule::one_f_one_b) return Done{};
    if (recomputes_for_weights(plan.schedule) && plan.recompute != Recompute::none)
        return usage_error(fmt::format(
            "{} would recompute a layer once for each of its weights, which has no price: give "
            "recompute none, or 1f1b or dualpipev",
            to_string(plan.schedule)));
    const bool is_v = is_v_shaped(plan.schedule);
    const std::int64_t least = plan.schedule == Schedule::dual_pipe_v ? 2 * plan.pp() : 1;
    const bool is_sound = plan.pp() > 1 && !is_mixed(plan) && (!is_v || plan.vpp == 2) &&
                          plan.num_micro_batches % plan.pp() == 0 &&
                          plan.num_micro_batches >= least &&
                          std::equal(plan.stage_layers.begin() + 1, plan.stage_layers.end(),
                                     plan.stage_layers.begin());
    return is_sound ? Status(Done{})
                    : usage_error(fmt::format("{} wants 2 stages or more, alike{}, of equally many "
                                              "layers, and micro-batches that are a "
                                              "multiple of the stages{}",
                                              to_string(plan.schedule), is_v ? ", vpp2" : "",
                                              least > 1 ? fmt::format(", {} or more", least) : ""));
}

Status check_experts(const Model& model, const Plan& plan) {
    if (plan.ep < 1 || !ep_fits(model, plan.ep))
        return usage_error(fmt::format("ep{} does not divide the {} experts of {}", plan.ep,
                                       model.experts, model.name));
    if (plan.etp < 1 || !etp_fits(model, plan.tp(), plan.ep, plan.etp))
        return usage_error(fmt::format(
            "etp{} splits experts that ep shares out: it wants ep2 or more and experts without "
            "biases, and divides tp{} and the experts' width",
            plan.etp, plan.tp()));
    if (plan.dp() * plan.cp * plan.tp() % (plan.ep * plan.etp) != 0)
        return usage_error(fmt::format("ep{}{} does not divide the {} GPUs of a stage", plan.ep,
                                       plan.etp > 1 ? fmt::format(" x etp{}", plan.etp) : "",
                                       plan.dp() * plan.cp * plan.tp()));
    return Done{};
}

Status check_shape(const Model& model, std::int64_t global_batch, const Grid& grid,
                   const Plan& plan) {
    const std::int64_t layers =
        std::accumulate(plan.stage_layers.begin(), plan.stage_layers.end(), std::int64_t{0});
    const auto positive = [](const std::vector<std::int64_t>& list, std::size_t size) {
        return list.size() == size &&
               std::all_of(list.begin(), list.end(), [](std::int64_t v) { return v >= 1; });
    };
    if (plan.stage_layers.empty() || layers != model.layers ||
        *std::min_element(plan.stage_layers.begin(), plan.stage_layers.end()) < 1)
        return usage_error(
            fmt::format("stage_layers must be at least 1 each and sum to the {} layers of {}",
                        model.layers, model.name));
    if (!positive(plan.stage_dp, plan.stage_layers.size()) ||
        !positive(plan.stage_tp, plan.stage_layers.size()))
        return usage_error("stage_dp and stage_tp must have one positive entry per stage");
    if (Status status = is_mixed(plan) ? check_mixed(plan, grid.gpus_per_node) : Done{}; !status)
        return status;
    if (plan.gpus() != grid.gpus())
        return usage_error(fmt::format("the plan {} takes {} GPUs, the grid has {}",
                                       short_form(plan), plan.gpus(), grid.gpus()));
    for (std::size_t i = 0; i < plan.stage_tp.size(); ++i) {
        const std::int64_t tp = plan.stage_tp[i];
        if (i > 0 && tp == plan.stage_tp[i - 1]) continue;
        if (std::string obstacle = tp_obstacle(model, tp); !obstacle.empty())
            return usage_error(std::move(obstacle));
        if (plan.sequence_parallel && tp > 1 && !is_transformer(model.family))
            return usage_error(fmt::format(
                "sequence parallelism splits tokens, and {} has none: give sp=0", model.name));
    }
    if (plan.micro_batch < 1 || plan.num_micro_batches < 1 ||
        plan.dp() * plan.micro_batch * plan.num_micro_batches != global_batch)
        return usage_error(
            fmt::format("dp * micro_batch * num_micro_batches = {} must be the batch {}",
                        plan.dp() * plan.micro_batch * plan.num_micro_batches, global_batch));
    if (Status status = check_sharding(plan); !status) return status;
    if (plan.vpp < 1 || (plan.vpp > 1 && plan.pp() == 1))
        return usage_error("vpp needs at least 2 pipeline stages; accepted: 1");
    const std::int64_t fewest =
        *std::min_element(plan.stage_layers.begin(), plan.stage_layers.end());
    // Embedding and head may fill the place of a layer each (Megatron's accounting for them).
    const bool ends_fill = model.layers + 2 == plan.vpp * plan.pp() && plan.vpp == fewest + 1;
    if (plan.vpp > fewest && !ends_fill)
        return usage_error(
            fmt::format("vpp{} needs at least {} layers on every stage", plan.vpp, plan.vpp));
    if (plan.vpp > 1 && plan.num_micro_batches % plan.pp() != 0)
        return usage_error(
            fmt::format("vpp{} needs the {} micro-batches to be a multiple of the {} stages",
                        plan.vpp, plan.num_micro_batches, plan.pp()));
    if (plan.cp < 1 || !cp_fits(model, plan.cp))
        return usage_error(fmt::format("cp{} does not split {} tokens into {} equal pieces",
                                       plan.cp, model.seq_length, 2 * plan.cp));
    if (Status status = check_experts(model, plan); !status) return status;
    return check_schedule(plan);
}

/// What has a plan of segments has one that needs no domain, too: the fastest where no domain joins
/// any nodes, of the same stages. With what the budget has left.
void add_plans_without_domain(const PlanQuery& query, const GpuPool& pool, PlanBudget& budget,
                              std::vector<GridResult>& results) {
    std::vector<Grid> grids;
    for (const GridResult& result : results)
        if (result.segment > 1 && result.grid.gpu_type == pool.gpu_type)
            grids.push_back(result.grid);
    if (grids.empty()) return;
    GpuPool apart = pool;
    apart.domain_nodes = 0;
    const auto context = prepare(query.model, apart, query.global_batch);
    PoolSearch search(query, *context, budget);
    for (std::size_t i = 0; i < grids.size(); ++i) {
        const PlanBudget::Slice own(budget, share_of(i, grids.size()));
        GridResult found = search.search({grids[i].nodes, grids[i].gpus_per_node}, grids[i].stages);
        if (!found.feasible) continue;
        price_spans(*context, found);
        results.push_back(std::move(found));
    }
}

bool are_same_nodes(const Grid& a, const Grid& b) {
    return a.gpu_type == b.gpu_type && a.nodes == b.nodes && a.gpus_per_node == b.gpus_per_node &&
           a.split == b.split;
}

/// A plan of segments is offered only where it is faster than one without.
void drop_needless_segments(std::vector<Offer>& offers) {
    std::vector<Grid> without;  // a segment, of the offers so far, the fastest first
    std::vector<Offer> kept;
    for (Offer& offer : offers) {
        const auto is_known = [&](const Grid& grid) { return are_same_nodes(grid, offer.grid); };
        if (offer.segment > 1 && std::any_of(without.begin(), without.end(), is_known)) continue;
        if (offer.segment == 1) without.push_back(offer.grid);
        kept.push_back(std::move(offer));
    }
    offers = std::move(kept);
}

}  // namespace

std::vector<GridResult> plan_grids(const PlanQuery& query) {
    PlanBudget unlimited;
    return plan_grids(query, unlimited);
}

std::vector<GridResult> plan_grids(const PlanQuery& query, PlanBudget& budget) {
    std::vector<GridResult> results;
    const bool has_domains = std::any_of(query.pools.begin(), query.pools.end(),
                                         [](const GpuPool& p) { return p.domain_nodes > 1; });
    std::optional<PlanBudget::Slice> first;  // a part is left for plans that need no domain
    if (has_domains) first.emplace(budget, 0.7);
    visit_pools(
        query, budget, results,
        [&](const GpuPool& pool, PoolSearch& search, const NodeShape& shape,
            const StageCounts& counts) {
            if (shape.uneven) {
                if (std::count(counts.begin(), counts.end(), 1) > 0)
                    add_uneven(pool, search, shape, results);
                return;
            }
            const std::size_t begin = results.size();
            {
                const PlanBudget::Slice slice(budget, query.can.told.has(Feature::mixed) ? 0.5 : 1);
                for (std::size_t i = 0; i < counts.size(); ++i) {
                    const PlanBudget::Slice own(budget, share_of(i, counts.size()));
                    results.push_back(search.search(shape, counts[i]));
                }
            }
            if (query.can.told.has(Feature::mixed))
                mix_stages(query, search.context(), budget, std::span(results).subspan(begin));
            for (std::size_t i = begin; i < results.size(); ++i)
                if (results[i].feasible) price_spans(search.context(), results[i]);
        });
    first.reset();
    for (const GpuPool& pool : query.pools) add_plans_without_domain(query, pool, budget, results);
    return results;
}

std::vector<GridResult> plan_pareto(const PlanQuery& query) {
    PlanBudget unlimited;
    return plan_pareto(query, unlimited);
}

std::vector<GridResult> plan_pareto(const PlanQuery& query, PlanBudget& budget) {
    std::vector<GridResult> infeasible_grids;
    std::map<std::pair<std::string, std::int64_t>, std::vector<GridResult>> sets;
    visit_pools(query, budget, infeasible_grids,
                [&](const GpuPool& pool, PoolSearch& search, const NodeShape& shape,
                    const StageCounts& counts) {
                    for (std::size_t i = 0; i < counts.size() && !shape.uneven; ++i) {
                        const PlanBudget::Slice own(budget, share_of(i, counts.size()));
                        for (GridResult& plan : search.pareto(shape, counts[i])) {
                            if (plan.feasible) price_spans(search.context(), plan);
                            auto& list = plan.feasible ? sets[{pool.gpu_type, shape.gpus()}]
                                                       : infeasible_grids;
                            list.push_back(std::move(plan));
                        }
                    }
                });
    std::vector<GridResult> results;
    for (auto& [key, list] : sets) {
        keep_pareto(list);
        results.insert(results.end(), list.begin(), list.end());
    }
    results.insert(results.end(), infeasible_grids.begin(), infeasible_grids.end());
    return results;
}

std::vector<Offer> make_offers(const PlanQuery& query) { return offers_of(plan_grids(query)); }

std::vector<Offer> offers_of(std::vector<GridResult> grids) {
    std::vector<Offer> offers;
    for (GridResult& result : grids) {
        if (!result.feasible) continue;
        const auto same = std::find_if(offers.begin(), offers.end(), [&](const Offer& offer) {
            return are_same_nodes(offer.grid, result.grid) &&
                   (offer.segment > 1) == (result.segment > 1);
        });
        Offer offer{std::move(result.grid), std::move(result.plan), result.estimate, result.slower,
                    result.segment};
        if (same == offers.end())
            offers.push_back(std::move(offer));
        else if (offer.estimate.samples_per_s > same->estimate.samples_per_s)
            *same = std::move(offer);
    }
    std::stable_sort(offers.begin(), offers.end(), [](const Offer& a, const Offer& b) {
        return a.estimate.samples_per_s > b.estimate.samples_per_s;
    });
    drop_needless_segments(offers);
    return offers;
}

bool fits_memory(const PlanQuery& query, PlanBudget& budget) {
    PlanQuery smallest = query;
    if (smallest.pin.micro_batch == 0) smallest.pin.micro_batch = 1;
    return std::any_of(query.pools.begin(), query.pools.end(), [&](const GpuPool& pool) {
        const auto context = prepare(query.model, pool, query.global_batch);
        return context && PoolSearch(smallest, *context, budget).fits_somewhere();
    });
}

std::string why_none(const std::vector<GridResult>& grids) {
    std::map<std::string_view, const GridResult*> largest;
    for (const GridResult& grid : grids) {
        if (grid.feasible) continue;
        const GridResult*& most = largest[grid.grid.gpu_type];
        if (!most || grid.grid.gpus() > most->grid.gpus()) most = &grid;
    }
    std::vector<std::string> reasons;
    for (const auto& [type, grid] : largest)
        reasons.push_back(fmt::format("{} ({})", grid->reason, short_form(grid->grid)));
    return join(reasons, "; ");
}

Result<Estimate> price_plan(const Model& model, std::int64_t global_batch, const Grid& grid,
                            const Plan& plan, const GpuPool& pool) {
    if (Status status = check_model(model); !status) return status.error();
    if (Status status = check_shape(model, global_batch, grid, plan); !status)
        return status.error();
    const auto prepared = prepare(model, pool, global_batch);
    if (!prepared) return no_error(no_precision(pool.hardware, model.precision));
    return price_on(*prepared, topology_of(pool, grid), plan);
}

void price_spans(const Model& model, std::int64_t global_batch, const GpuPool& pool,
                 GridResult& result) {
    if (const auto prepared = prepare(model, pool, global_batch)) price_spans(*prepared, result);
}

Plan with_best_layers(const Model& model, std::int64_t global_batch, const Grid& grid, Plan plan,
                      const GpuPool& pool, LayerSplit split) {
    PlanBudget unlimited;
    return with_best_layers(model, global_batch, grid, std::move(plan), pool, split, unlimited);
}

Plan with_best_layers(const Model& model, std::int64_t global_batch, const Grid& grid, Plan plan,
                      const GpuPool& pool, LayerSplit split, PlanBudget& budget) {
    if (is_mixed(plan) || choice_of(plan).is_replayed() || plan.pp() == 1) return plan;
    const auto context = prepare(model, pool, global_batch);
    if (!context || context->is_homogeneous()) return plan;
    PlanQuery query{.model = model,
                    .global_batch = global_batch,
                    .min_gpus = grid.gpus(),
                    .max_gpus = grid.gpus()};
    query.pin.micro_batch = plan.micro_batch;
    query.can.set(split);
    PoolSearch search(query, *context, budget);
    search.partition_fixed({grid.nodes, grid.gpus_per_node}, shape_of(plan), choice_of(plan),
                           plan.stage_layers);
    return plan;
}

PlanQuery profile_query(const ProfileRequest& request, const GpuType& hardware) {
    PlanQuery query;
    query.model = request.model;
    query.global_batch = request.global_batch;
    query.max_gpus = request.max_gpus;
    query.pools = {{.gpu_type = request.gpu_type,
                    .hardware = hardware,
                    .gpus_per_node = request.gpus_per_node,
                    .max_gpus = request.max_gpus}};
    return query;
}

std::vector<OpShape> operator_list(const PlanQuery& query) {
    PlanBudget unlimited;
    return operator_list(query, unlimited);
}

std::vector<OpShape> operator_list(const PlanQuery& query, PlanBudget& budget) {
    OperatorSet set;
    for (const GpuPool& pool : query.pools) {
        const auto context = prepare(query.model, pool, query.global_batch);
        if (!context) continue;
        std::vector<ShardShape> shapes = PoolSearch(query, *context, budget).fitting_shapes();
        std::stable_sort(shapes.begin(), shapes.end(), measured_before);
        const Pricer analytic(pool.hardware, context->constants, {});
        for (const ShardShape& shape : shapes) {
            if (budget.poll(operator_steps)) break;
            set.add(weighted_operators(*context, analytic, shape));
            if (measures_layers_of(shape, shapes)) add_whole_layers(*context, shape, set);
        }
    }
    return set.list;
}

}  // namespace arena
