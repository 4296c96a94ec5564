// SPDX-License-Identifier: GPL-2.0-or-later
// What plan_grids(), make_offers(), price_plan() and operator_list() answer for known models.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "planner/hardware/hardware.h"
#include "planner/models/readers.h"
#include "planner/operators/cost.h"
#include "planner/search/grids.h"
#include "planner/search/planner.h"
#include "planner/search/search.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

const std::vector<GpuType>& all_hardware() {
    static const auto types = load_hardware("");
    ck_assert_msg(types.ok(), "%s", types.ok() ? "" : types.error().message().c_str());
    return *types;
}

GpuPool pool_of(const char* name, std::int64_t gpus) {
    const GpuType type = *find_hardware(all_hardware(), name);
    return {name, type, type.gpus_per_node, gpus, {}};
}

PlanQuery query_of(const char* model, std::int64_t batch, std::int64_t min, std::int64_t max,
                   std::initializer_list<const char*> types) {
    PlanQuery query{*find_zoo_model(model), batch, min, max, {}, {}};
    for (const char* type : types) query.pools.push_back(pool_of(type, max));
    return query;
}

const GridResult& best_of(const std::vector<GridResult>& grids) {
    const GridResult* best = nullptr;
    for (const GridResult& grid : grids)
        if (grid.feasible &&
            (best == nullptr || grid.estimate.iteration_s < best->estimate.iteration_s))
            best = &grid;
    ck_assert_msg(best != nullptr, "no feasible grid");
    return *best;
}

/// A profile in which every operator of the list takes `factor` times its roofline.
ProfileTable profile_of(const PlanQuery& query, const GpuType& type, double factor,
                        std::size_t first = SIZE_MAX) {
    OpSeconds table;
    for (const OpShape& shape : operator_list(query)) {
        if (table.size() >= first) break;
        table[shape] = factor * analytic_seconds(type, shape);
    }
    return ProfileTable(table);
}

std::vector<std::int64_t> gpu_counts(const PlanQuery& query, const GpuPool& pool) {
    std::vector<std::int64_t> counts;
    for (const NodeShape& shape : node_shapes(query, pool)) counts.push_back(shape.gpus());
    return counts;
}

}  // namespace

TEST(a_count_is_planned_on_more_nodes_than_it_needs_where_the_site_has_them) {
    PlanQuery query = query_of("gpt2", 64, 4, 4, {"a100"});
    GpuPool& pool = query.pools[0];
    ck_assert(other_layouts(query, pool, {1, 4}).empty());
    pool.nodes = 2;
    ck_assert(other_layouts(query, pool, {1, 4}) == (std::vector<NodeShape>{{2, 2}}));
    pool.nodes = 12;
    ck_assert(other_layouts(query, pool, {1, 4}) == (std::vector<NodeShape>{{2, 2}, {4, 1}}));
    ck_assert(other_layouts(query, pool, {2, 6}) ==
              (std::vector<NodeShape>{{3, 4}, {4, 3}, {6, 2}, {12, 1}}));
    query.pin.tp = 2;
    ck_assert(other_layouts(query, pool, {1, 4}) == (std::vector<NodeShape>{{2, 2}}));
    query.pin = {};
    const std::vector<Offer> offers = make_offers(query);
    ck_assert_uint_eq(offers.size(), 3);
    ck_assert_int_eq(offers.front().grid.nodes, 1);  // the fastest first
    for (const Offer& offer : offers) {
        ck_assert_int_eq(offer.grid.gpus(), 4);
        const auto alone = price_plan(query.model, 64, offer.grid, offer.plan, pool);
        ck_assert(alone && alone->iteration_s == offer.estimate.iteration_s);
    }
    pool.nodes = 0;
    ck_assert(make_offers(query) == std::vector<Offer>{offers.front()});
}

TEST(a_data_parallel_count_is_planned_for_nodes_that_differ_where_that_is_wanted) {
    PlanQuery query = query_of("gpt2", 64, 4, 4, {"a100"});
    GpuPool& pool = query.pools[0];
    pool.gpus_per_node = 4;
    pool.nodes = 4;
    query.can = capabilities_of("ddp");
    const std::vector<Offer> even = make_offers(query);
    query.uneven = true;
    const std::vector<Offer> all = make_offers(query);
    ck_assert_uint_eq(all.size(), even.size() + 1);
    const auto uneven = std::find_if(all.begin(), all.end(),
                                     [](const Offer& offer) { return offer.grid.is_uneven(); });
    ck_assert(uneven != all.end());
    ck_assert(uneven->grid.split == (std::vector<std::int64_t>{3, 1}));
    ck_assert_int_eq(uneven->plan.dp(), 4);
    for (const Offer& offer : even)
        ck_assert(offer.estimate.iteration_s <= uneven->estimate.iteration_s);
    for (const GridResult& plan : plan_pareto(query)) ck_assert(!plan.grid.is_uneven());
    query.pin.tp = 2;
    query.can = capabilities_of("env");
    for (const Offer& offer : make_offers(query)) ck_assert(!offer.grid.is_uneven());
    query.pin = {};
    pool.nodes = 1;
    ck_assert(!uneven_layout(query, pool, 4));
    pool.nodes = 2;
    ck_assert(uneven_layout(query, pool, 3) && !uneven_layout(query, pool, 2));
    using Split = std::vector<std::int64_t>;
    ck_assert(fullest_split(4, 8) == (Split{3, 1}) && fullest_split(5, 4) == (Split{4, 1}));
    ck_assert(fullest_split(8, 4) == (Split{4, 3, 1}) && fullest_split(4, 2) == (Split{2, 1, 1}));
}

TEST(what_no_grid_can_hold_is_told_by_its_largest) {
    const PlanQuery query = query_of("llama-3-8b", 16, 1, 1, {"a100"});
    const std::string why = why_none(plan_grids(query));
    ck_assert_msg(why.starts_with("memory: the smallest plan needs") && why.ends_with("(1xa100)"),
                  "%s", why.c_str());
}

TEST(gpu_counts_fill_equal_nodes) {
    ck_assert(node_shape(4, 8) == (NodeShape{1, 4}));
    ck_assert(node_shape(12, 8) == (NodeShape{2, 6}));
    ck_assert(node_shape(13, 8) == (NodeShape{13, 1}));
    ck_assert(node_shape(16, 6) == (NodeShape{4, 4}));
    PlanQuery query = query_of("gpt2", 512, 1, 32, {"a100"});
    ck_assert(gpu_counts(query, query.pools[0]) ==
              (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32}));
    query.min_gpus = query.max_gpus = 12;
    ck_assert(gpu_counts(query, query.pools[0]) == std::vector<std::int64_t>{12});
    query.min_gpus = 1, query.max_gpus = 20, query.pin = {3, 2, 0, 0};
    ck_assert(gpu_counts(query, query.pools[0]) == (std::vector<std::int64_t>{6, 12, 18}));
    query.pin = {}, query.max_gpus = 0;
    ck_assert_int_eq(gpu_counts(query, query.pools[0]).back(), 32);
    query.pools[0].max_gpus = 65536;
    ck_assert_uint_lt(gpu_counts(query, query.pools[0]).size(), 250);
}

TEST(models_get_different_best_plans) {
    // Declared beforehand: gpt2 trains on replicas alone; gpt-22b needs its weights split over
    // GPUs.
    const auto small = plan_grids(query_of("gpt2", 512, 8, 8, {"a100"}));
    const auto large = plan_grids(query_of("gpt-22b", 64, 8, 8, {"a100"}));
    const Plan& few = best_of(small).plan;
    const Plan& split = best_of(large).plan;
    ck_assert(few.dp() == 8 && few.pp() == 1 && few.tp() == 1);
    ck_assert(split.pp() * split.tp() > 1 && split.dp() < 8);
}

TEST(faster_hardware_and_more_gpus_give_more_samples) {
    const auto on = [](const char* type, std::int64_t gpus) {
        const PlanQuery query = query_of("llama-2-7b", 512, gpus, gpus, {type});
        return best_of(plan_grids(query)).estimate.samples_per_s;
    };
    ck_assert_double_gt(on("a100", 8), on("a40", 8));
    ck_assert_double_gt(on("h100", 8), 1.5 * on("a100", 8));
    ck_assert_double_gt(on("h100", 32), 2.5 * on("h100", 8));
    ck_assert_double_lt(on("h100", 32), 4.01 * on("h100", 8));
}

TEST(infeasible_grids_say_which_resource_is_short) {
    const auto reason = [](const PlanQuery& query) {
        const auto grids = plan_grids(query);
        ck_assert_uint_ge(grids.size(), 1);
        ck_assert(!grids.front().feasible);
        return grids.front().reason;
    };
    const auto starts = [](const std::string& text, const char* word) {
        ck_assert_msg(text.starts_with(word), "'%s' is not about %s", text.c_str(), word);
    };
    starts(reason(query_of("gpt-175b", 64, 1, 1, {"a40"})), "memory: ");
    starts(reason(query_of("gpt2", 512, 7, 7, {"a100"})), "batch: ");
    starts(reason(query_of("gpt2", 512, 8, 8, {"v100"})), "precision: ");
    PlanQuery pinned = query_of("gpt2", 512, 8, 8, {"a100"});
    pinned.pin = {13, 0, 0, 0};
    pinned.min_gpus = pinned.max_gpus = pinned.pools[0].max_gpus = 13;
    starts(reason(pinned), "layers: ");
    pinned.pin = {0, 0, 5, 0};
    pinned.min_gpus = pinned.max_gpus = 5;
    starts(reason(pinned), "heads: ");
    pinned.pin = {0, 3, 0, 0};
    pinned.min_gpus = pinned.max_gpus = 8;
    starts(reason(pinned), "plan: ");
    pinned.pin = {};
    pinned.pin.ep = 2;
    starts(reason(pinned), "plan: ep2");
    pinned.pin = {8, 0, 0, 0};  // stages of 12 layers
    pinned.pin.schedule = Schedule::zb_h1;
    starts(reason(pinned), "plan: zbh1 wants 2 stages or more of equally many layers, and");
    ck_assert(recompute_kinds(pinned) == std::vector{Recompute::none});
    pinned.pin.schedule = Schedule::dual_pipe_v;
    ck_assert_uint_gt(recompute_kinds(pinned).size(), 1);
    PlanQuery scarce = query_of("gpt2", 512, 8, 8, {"a100"});
    scarce.pools[0].max_gpus = 4;
    starts(reason(scarce), "gpus: ");
}

TEST(pins_are_obeyed_and_cost_no_less_than_freedom) {
    PlanQuery query = query_of("gpt-1.3b", 512, 8, 8, {"a100"});
    const double free_s = best_of(plan_grids(query)).estimate.iteration_s;
    query.pin = {2, 2, 2, 4};
    const auto grids = plan_grids(query);
    ck_assert_uint_eq(grids.size(), 1);
    ck_assert(grids[0].feasible && matches(query.pin, grids[0].plan));
    ck_assert_double_ge(grids[0].estimate.iteration_s, free_s);
}

/// A script of the user's own may split them when told to; of the others only a program like Alpa.
TEST(convolutions_are_split_where_the_launcher_can) {
    PlanQuery query = query_of("wide-resnet-6.8b", 64, 8, 8, {"h100"});
    const auto split = [&] {
        std::int64_t most = 0;
        for (const GridResult& grid : plan_grids(query))
            for (const std::int64_t tp : grid.plan.stage_tp) most = std::max(most, tp);
        return most;
    };
    query.can = all_capabilities();
    const double free_s = best_of(plan_grids(query)).estimate.iteration_s;
    ck_assert_int_gt(split(), 1);
    query.can.set(Feature::convolutions, Degree::pinned);
    ck_assert_int_eq(split(), 1);
    ck_assert_double_gt(best_of(plan_grids(query)).estimate.iteration_s, free_s);
    for (const char* launcher : {"env", "megatron", "torchtitan"}) {
        query.can = capabilities_of(launcher);
        ck_assert_int_eq(split(), 1);
    }
    query.can = capabilities_of("env");
    query.pin.tp = 4;
    ck_assert_int_eq(split(), 4);
    query.pin.tp = 3, query.min_gpus = query.max_gpus = 6;
    const std::vector<GridResult> odd = plan_grids(query);
    ck_assert_uint_ge(odd.size(), 1);
    for (const GridResult& grid : odd)
        ck_assert_str_eq(grid.reason.c_str(),
                         "plan: tp3 does not divide the 320 base channels of wide-resnet-6.8b");
}

TEST(offers_are_the_best_per_count_and_fit_memory) {
    const PlanQuery query = query_of("gpt-1.3b", 256, 1, 16, {"a40", "a100", "t4"});
    const std::vector<Offer> offers = make_offers(query);
    ck_assert_uint_ge(offers.size(), 6);
    std::set<std::pair<std::string, std::int64_t>> seen;
    for (std::size_t i = 0; i < offers.size(); ++i) {
        const Offer& o = offers[i];
        ck_assert(seen.insert({o.grid.gpu_type, o.grid.gpus()}).second);
        if (i > 0)
            ck_assert_double_le(o.estimate.samples_per_s, offers[i - 1].estimate.samples_per_s);
        const GpuType type = *find_hardware(all_hardware(), o.grid.gpu_type);
        ck_assert_double_le(o.estimate.memory_bytes_per_gpu,
                            static_cast<double>(type.memory_bytes));
        ck_assert_str_ne(o.grid.gpu_type.c_str(), "t4");  // no bf16
    }
}

TEST(price_plan_agrees_with_the_search) {
    const PlanQuery query = query_of("gpt-2.7b", 256, 16, 16, {"a100", "a40"});
    for (const GridResult& grid : plan_grids(query)) {
        if (!grid.feasible) continue;
        const GpuPool& pool = query.pools[grid.grid.gpu_type == "a100" ? 0 : 1];
        const auto priced = must(price_plan(query.model, 256, grid.grid, grid.plan, pool));
        ck_assert(priced == grid.estimate);
    }
}

TEST(price_plan_refuses_plans_that_do_not_add_up) {
    const GpuPool pool = pool_of("a100", 8);
    const Model model = *find_zoo_model("gpt2");
    Plan good;
    good.stage_layers = {6, 6}, good.stage_dp = {2, 2}, good.stage_tp = {2, 2};
    good.micro_batch = 4, good.num_micro_batches = 8;
    const Grid grid{"a100", 1, 8, 2};
    ck_assert(price_plan(model, 64, grid, good, pool).ok());
    const auto refused = [&](Plan plan, std::int64_t batch, const char* part) {
        const auto result = price_plan(model, batch, grid, plan, pool);
        ck_assert_msg(!result.ok(), "accepted; wanted %s", part);
        ck_assert_msg(result.error().text.find(part) != std::string::npos, "%s",
                      result.error().text.c_str());
    };
    refused(good, 65, "batch");
    Plan bad = good;
    bad.stage_layers = {6, 7}, refused(bad, 64, "12 layers");
    bad = good, bad.stage_dp = {4, 2}, refused(bad, 64, "takes 12 GPUs");
    bad = good, bad.stage_dp = {2, 0}, refused(bad, 64, "stage_dp");
    bad = good, bad.stage_dp = {3, 1}, refused(bad, 64, "an aligned part of one");
    bad = good, bad.stage_dp = {2, 4}, bad.stage_tp = {2, 1}, bad.micro_batch = 1;
    bad.num_micro_batches = 32, refused(bad, 64, "does not divide the 2 samples");
    bad = good, bad.stage_dp = {1, 1}, refused(bad, 64, "GPUs");
    bad = good, bad.stage_tp = {8, 8}, bad.stage_dp = {1, 1}, refused(bad, 64, "GPUs");
    bad = good, bad.zero_stage = 4, refused(bad, 64, "zero_stage");
    bad = good, bad.cp = 2, bad.stage_dp = {1, 1}, refused(bad, 64, "batch");
    bad = good, bad.vpp = 2;
    ck_assert(price_plan(model, 64, grid, bad, pool).ok());
    bad.vpp = 8, refused(bad, 64, "vpp8 needs at least 8 layers");
    bad.vpp = 2, bad.micro_batch = 32, bad.num_micro_batches = 1;
    refused(bad, 64, "a multiple of the 2 stages");
    ck_assert(!price_plan(model, 64, grid, Plan{}, pool).ok());
    const Model images = *find_zoo_model("wide-resnet-1b");
    Plan split = good;
    split.stage_layers = {8, 8};
    ck_assert(price_plan(images, 64, grid, split, pool).ok());
    split.sequence_parallel = true;
    const auto tokens = price_plan(images, 64, grid, split, pool);
    ck_assert(!tokens.ok() &&
              tokens.error().text.find("wide-resnet-1b has none: give sp=0") != std::string::npos);
}

TEST(profiles_decide_seconds_and_source) {
    PlanQuery query = query_of("gpt2", 64, 1, 4, {"emulated-cpu"});
    const GpuType type = query.pools[0].hardware;
    const auto analytic = make_offers(query);
    query.pools[0].profile = profile_of(query, type, 3);
    const auto measured = make_offers(query);
    query.pools[0].profile = profile_of(query, type, 3, 28);
    const auto basis = make_offers(query);
    ck_assert_uint_eq(measured.size(), analytic.size());
    for (std::size_t i = 0; i < measured.size(); ++i) {
        ck_assert(analytic[i].estimate.source == Source::analytic);
        ck_assert(measured[i].estimate.source == Source::profiled);
        ck_assert_double_lt(measured[i].estimate.error_bound, analytic[i].estimate.error_bound);
        ck_assert_double_eq_tol(measured[i].estimate.compute_s / analytic[i].estimate.compute_s, 3,
                                1e-6);
        // Measuring the first 28 operators alone must already carry the ratio to the rest.
        ck_assert_double_eq_tol(basis[i].estimate.compute_s / analytic[i].estimate.compute_s, 3,
                                0.01);
    }
}

TEST(operator_list_begins_with_a_basis_and_covers_the_search) {
    const PlanQuery query = query_of("gpt2", 64, 1, 4, {"emulated-cpu"});
    const std::vector<OpShape> list = operator_list(query);
    std::set<std::string> keys;
    std::set<OpKind> kinds;
    for (std::size_t i = 0; i < list.size(); ++i) {
        ck_assert(keys.insert(op_key(list[i])).second);
        ck_assert(list[i].precision == Precision::fp32);
        if (i < 25) kinds.insert(list[i].kind);
        if (i < 21) ck_assert_int_le(list[i].dims[0], 7087872);
    }
    ck_assert(kinds.contains(OpKind::gemm) && kinds.contains(OpKind::attention) &&
              kinds.contains(OpKind::norm) && kinds.contains(OpKind::elementwise) &&
              kinds.contains(OpKind::optimizer));
    ck_assert_uint_lt(list.size(), 1000);
    ck_assert(operator_list(query_of("gpt2", 512, 1, 8, {"v100"})).empty());
}

TEST(small_models_fit_a_few_emulated_gpus) {
    const auto offers = make_offers(query_of("gpt2", 16, 1, 4, {"emulated-cpu"}));
    ck_assert(!offers.empty());
    std::ifstream in(std::string(std::getenv("ARENA_SRCDIR") ? std::getenv("ARENA_SRCDIR") : ".") +
                     "/etc/models/llama-tiny.yaml");
    std::stringstream text;
    text << in.rdbuf();
    PlanQuery query = query_of("gpt2", 16, 1, 4, {"emulated-cpu"});
    query.model = *parse_model(text.str(), "llama-tiny.yaml");
    ck_assert_uint_ge(make_offers(query).size(), 3);
}

TEST(sixty_four_gpus_of_four_types_give_hundreds_of_grids) {
    const PlanQuery query = query_of("gpt-1.3b", 512, 1, 64, {"a40", "a100", "h100", "l4"});
    const std::size_t grids = plan_grids(query).size();
    ck_assert_uint_ge(grids, 200);
}

TEST(counts_that_are_no_powers_of_two_get_plans_too) {
    for (const char* model : {"gpt2", "gpt-145.6b"})  // 12 and 96 heads
        for (std::int64_t per_node : {6, 8})
            for (std::int64_t gpus : {3, 6, 12, 24}) {
                PlanQuery query = query_of(model, 512, gpus, gpus, {"h200"});
                query.pools[0].gpus_per_node = per_node;
                // Enough for any of these: what is asked is whether there is a plan, not memory.
                query.pools[0].hardware.memory_bytes = std::int64_t{8} << 40;
                // 512 samples are not split by 3: stages or tensor parallelism must be.
                const bool in_thirds = (gpus <= per_node ? gpus : per_node) % 3 == 0;
                query.pin.pp = in_thirds || gpus == 12 ? 1 : 0;
                const Plan plan = best_of(plan_grids(query)).plan;
                ck_assert_int_eq(plan.gpus(), gpus);
                ck_assert_int_eq(plan.tp() * plan.pp() % 3, 0);
            }
    PlanQuery query = query_of("llama-2-7b", 512, 3, 3, {"h200"});  // 32 heads, 32 layers
    query.can = all_capabilities();
    ck_assert(best_of(plan_grids(query)).plan.stage_layers.size() == 3);
}

TEST(micro_batches_are_as_large_as_the_batch_asks_for) {
    PlanQuery query = query_of("gpt2", 14414400, 1, 8, {"a100"});  // 504 divisors
    query.model.seq_length = 16;
    std::int64_t candidates = 0;
    const std::vector<GridResult> grids = plan_grids(query);
    for (const GridResult& grid : grids) {
        ck_assert_msg(grid.feasible, "%s", grid.reason.c_str());
        candidates += grid.candidates;
    }
    ck_assert_int_gt(best_of(grids).plan.micro_batch, 128);
    ck_assert_int_lt(candidates, max_candidates / 10);
    query.model.seq_length = 1024;  // what fits nowhere is not even listed
    std::int64_t fewer = 0;
    for (const GridResult& grid : plan_grids(query)) fewer += grid.candidates;
    ck_assert_int_lt(fewer, candidates);
}

TEST(layers_are_spread_as_the_launcher_can_be_told) {
    using Layers = std::vector<std::int64_t>;
    ck_assert(spread_layers(LayerSplit::any, 14, 4) == (Layers{4, 4, 3, 3}));
    ck_assert(spread_layers(LayerSplit::ends, 14, 4) == (Layers{3, 4, 4, 3}));
    ck_assert(spread_layers(LayerSplit::ends, 9, 4) == (Layers{2, 3, 3, 1}));
    ck_assert(spread_layers(LayerSplit::ends, 9, 8) == (Layers{2, 1, 1, 1, 1, 1, 1, 1}));
    for (std::int64_t layers = 1; layers <= 40; ++layers)
        for (std::int64_t stages = 1; stages <= layers; ++stages)
            for (const LayerSplit split : {LayerSplit::ends, LayerSplit::any}) {
                const Layers spread = spread_layers(split, layers, stages);
                ck_assert(expresses(split, spread));
                ck_assert_int_eq(std::accumulate(spread.begin(), spread.end(), std::int64_t{0}),
                                 layers);
                ck_assert_int_ge(*std::min_element(spread.begin(), spread.end()), 1);
            }
}
