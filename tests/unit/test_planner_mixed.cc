// SPDX-License-Identifier: GPL-2.0-or-later
// Stages that differ in dp and tp: the search against plain enumeration of every layout, and prices
// against those of uniform plans.
#include "planner/plans/shard.h"
#include "planner/requests/pin_rules.h"
#include "planner/search/mixed.h"
#include "planner/search/mixed_search.h"
#include "planner/search/search.h"
#include "planner_cases.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

/// Calls visit with every way to lay `stages` stages with mixed dp and tp over the GPUs of the
/// grid, layers and schedule aside; samples = those of a micro-batch.
void each_mix(const Case& c, const Grid& grid, std::int64_t samples, Plan& plan,
              std::int64_t gpus_left, const std::function<void()>& visit) {
    const std::int64_t stages = grid.stages - static_cast<std::int64_t>(plan.stage_dp.size());
    if (stages == 0) {
        if (gpus_left == 0) visit();
        return;
    }
    for (std::int64_t tp = 1; tp <= grid.gpus_per_node; ++tp)
        for (std::int64_t dp = 1; dp * tp <= gpus_left; ++dp) {
            const bool is_whole = c.query.model.family == Family::wide_resnet &&
                                  c.query.can.degree(Feature::convolutions) != Degree::free;
            if (samples % dp != 0 || !tp_fits(c.query.model, tp) || (is_whole && tp > 1)) continue;
            plan.stage_dp.push_back(dp), plan.stage_tp.push_back(tp);
            each_mix(c, grid, samples, plan, gpus_left - dp * tp, visit);
            plan.stage_dp.pop_back(), plan.stage_tp.pop_back();
        }
}

/// The least seconds of plans with mixed stages, each priced by price_plan().
double best_mixed_s(const Case& c, const Grid& grid, long& plans) {
    const GpuPool& pool = c.query.pools[0];
    double best = infinity;
    for (std::int64_t m = 1; m <= c.query.global_batch; ++m) {
        if (c.query.global_batch % m != 0) continue;
        Plan plan;
        plan.num_micro_batches = m;
        const std::int64_t samples = c.query.global_batch / m;
        each_mix(c, grid, samples, plan, grid.gpus(), [&] {
            if (!is_mixed(plan)) return;
            plan.micro_batch = samples / plan.dp();
            plan.sequence_parallel = is_transformer(c.query.model.family);
            each_partition(c.query.model.layers, grid.stages, [&](const Layers& partition) {
                plan.stage_layers = partition;
                for (const Recompute recompute : recompute_kinds(c.query))
                    for (std::int64_t zero = 0; zero <= 1; ++zero) {
                        plan.recompute = recompute, plan.zero_stage = zero;
                        const auto priced =
                            price_plan(c.query.model, c.query.global_batch, grid, plan, pool);
                        if (!priced) continue;  // not aligned with the nodes
                        ++plans;
                        if (priced->memory_bytes_per_gpu <=
                            static_cast<double>(pool.hardware.memory_bytes)) {
                            best = std::min(best, priced->iteration_s);
                        }
                    }
            });
        });
    }
    return best;
}

}  // namespace

TEST(stages_that_differ_are_the_best_of_all_that_do) {
    Random random(8);
    long plans = 0, chosen = 0, differing = 0;
    for (int n = 0; n < 1000;) {
        std::optional<Case> c = small_case(random);
        if (!c || c->query.model.layers > 6 || c->query.global_batch > 16) continue;
        ++n;
        c->query.pin = {};
        c->query.can = all_capabilities();
        c->query.can.told.remove(Feature::mixed);
        const std::vector<GridResult> uniform = plan_grids(c->query);
        c->query.can.told.add(Feature::mixed);
        const std::vector<GridResult> any = plan_grids(c->query);
        ck_assert_uint_eq(uniform.size(), any.size());
        // All grids have the same GPUs: mixed stages are for the best of them.
        double even = infinity, mixed = infinity, found = infinity;
        for (std::size_t i = 0; i < any.size(); ++i) {
            mixed = std::min(mixed, best_mixed_s(*c, any[i].grid, plans));
            if (uniform[i].feasible) even = std::min(even, uniform[i].estimate.iteration_s);
            if (!any[i].feasible) continue;
            found = std::min(found, any[i].estimate.iteration_s);
            if (!is_mixed(any[i].plan)) continue;
            ++chosen;
            differing += layer_list(c->query.model).kinds.size() > 1 ? 1 : 0;
            const auto priced = price_plan(c->query.model, c->query.global_batch, any[i].grid,
                                           any[i].plan, c->query.pools[0]);
            ck_assert(priced.ok() && *priced == any[i].estimate);
        }
        const double best = std::min(even, mixed);
        ck_assert(std::isfinite(found) == std::isfinite(best));
        if (!std::isfinite(best)) continue;
        ck_assert_msg(std::fabs(found / best - 1) < 1e-9,
                      "case %d: %.17g found, the best takes %.17g (uniform %.17g)", n, found, best,
                      even);
    }
    std::printf("%ld mixed plans, %ld chosen, %ld of layers that differ\n", plans, chosen,
                differing);
    ck_assert_int_gt(plans, 10000);
    ck_assert_int_gt(chosen, 10);
    ck_assert_int_gt(differing, 5);
}

TEST(mixed_prices_of_uniform_plans_are_the_uniform_prices) {
    Random random(9);
    for (int n = 0; n < 2000;) {
        const Priced p = any_priced(random);
        const std::int64_t each = p.plan.dp() * p.plan.tp(), per_node = p.grid.gpus_per_node;
        if (each < per_node ? per_node % each != 0 : each % per_node != 0) continue;
        if (p.plan.sequence_parallel != default_sequence_parallel(p.model, p.plan.tp())) continue;
        ++n;
        const PoolContext context = prepare(p.model, p.pool, p.batch).value();
        ShardBook shards(context, p.plan.sequence_parallel);
        const Topology topology = make_topology(p.pool.hardware, p.grid, p.pool.gpus_per_node);
        const Estimate mixed = price_mixed(context, topology, shards, p.plan);
        const Estimate uniform = p.price();
        ck_assert_double_eq_tol(mixed.iteration_s, uniform.iteration_s, 1e-9 * uniform.iteration_s);
        ck_assert_double_eq_tol(mixed.dp_comm_s, uniform.dp_comm_s, 1e-9 * uniform.iteration_s);
        ck_assert_double_eq_tol(mixed.pp_comm_s, uniform.pp_comm_s, 1e-9 * uniform.iteration_s);
        ck_assert(mixed.memory_bytes_per_gpu == uniform.memory_bytes_per_gpu);
        ck_assert(mixed.source == uniform.source);
    }
}

namespace {

/// The first layer differs from the others.
Model heterogeneous_model(std::int64_t layers) {
    Model m;
    m.name = "differing";
    m.family = Family::custom;
    m.precision = Precision::fp16;
    for (const std::int64_t count : {std::int64_t{1}, layers - 1}) {
        CustomLayer layer;
        layer.count = count;
        layer.forward_flops = 1e9 / static_cast<double>(count);
        layer.parameter_bytes = 1e5;
        layer.activation_bytes = 1e4;
        m.custom_layers.push_back(layer);
    }
    return must(complete_model(m, "differing"));
}

PlanQuery query_of(const Model& model, std::int64_t gpus, const Capabilities& can) {
    return {model, 4, 1, gpus, {}, {{"a40", *find_hardware(all_hardware(), "A40"), 8, gpus, {}}},
            can};
}

}  // namespace

TEST(grids_whose_mixed_stages_are_too_many_to_look_at_say_so) {
    const Model model = heterogeneous_model(3000);
    Capabilities can = all_capabilities();
    std::size_t beyond = 0;
    for (const GridResult& r : plan_grids(query_of(model, 2, can))) {
        ck_assert_int_eq(r.uniform_only, r.grid.stages == 2);
        beyond += r.uniform_only ? 1 : 0;
    }
    ck_assert_uint_eq(beyond, 1);
    can.told.remove(Feature::mixed);  // nothing was left out of what the launcher can be told
    for (const GridResult& r : plan_grids(query_of(model, 2, can))) ck_assert(!r.uniform_only);
    for (const GridResult& r : plan_grids(query_of(heterogeneous_model(3), 2, all_capabilities())))
        ck_assert(!r.uniform_only);
}

TEST(the_bound_of_mixed_stages_is_the_largest_grid_that_is_looked_at) {
    ck_assert_int_eq(mixed_stages_bound(heterogeneous_model(2048)), 1 << 25);
    ck_assert_int_eq(mixed_stages_bound(*find_zoo_model("gpt2")), 1 << 30);
    PlanQuery query = query_of(heterogeneous_model(2048), 8, all_capabilities());
    const auto is_too_large = [&](std::int64_t stages, std::int64_t gpus) {
        const PoolContext context =
            prepare(query.model, query.pools[0], query.global_batch).value();
        PlanBudget budget;
        return MixedSearch(query, context, budget).is_too_large({"a40", 1, gpus, stages});
    };
    ck_assert(!is_too_large(2, 4));  // 2 x 4 x 2048^2 = 2^25
    ck_assert(is_too_large(2, 5));
    ck_assert(!is_too_large(1, 8));  // has no two stages
    query.pin.vpp = 2;               // has no mixed stages, however large
    ck_assert(!is_too_large(2, 8));
}

/// What is left out is bounded: where no setting left out can beat what was found, nothing can.
TEST(a_search_of_few_partial_plans_says_when_it_may_have_missed_the_best) {
    Random random(11);
    int whole = 0, in_part = 0, missed = 0;
    for (int n = 0; n < 300;) {
        std::optional<Case> c = small_case(random);
        if (!c) continue;
        ++n;
        c->query.pin = {};
        c->query.can = all_capabilities();
        const auto seconds_and_part = [&](std::int64_t most) {
            PlanQuery query = c->query;
            query.max_partial_plans = most;
            double best_s = infinity;
            bool is_part = false;
            for (const GridResult& r : plan_grids(query)) {
                if (r.feasible) best_s = std::min(best_s, r.estimate.iteration_s);
                is_part |= r.mixed_in_part;
            }
            return std::pair(best_s, is_part);
        };
        const auto [best_s, best_is_part] = seconds_and_part(PlanQuery{}.max_partial_plans);
        ck_assert(!best_is_part);
        for (const std::int64_t most : {1, 4, 16, 64}) {
            const auto [found_s, is_part] = seconds_and_part(most);
            ck_assert(found_s >= best_s);
            ck_assert_msg(is_part || found_s == best_s, "case %d, of %ld: %.17g, the best is %.17g",
                          n, static_cast<long>(most), found_s, best_s);
            ++(is_part ? in_part : whole);
            missed += found_s > best_s ? 1 : 0;
        }
    }
    std::printf("%d searches whole, %d in part, of which %d missed the best\n", whole, in_part,
                missed);
    ck_assert_int_gt(whole, 100);
    ck_assert_int_gt(missed, 10);
}

/// What is said at submit of a pin that can never be must be so; what is not said must be had, but
/// where ep, ZeRO or sequence parallelism is pinned and not all degrees are: whether some share of
/// the experts fits, and whether there are replicas or tp ranks, is the search's to say.
TEST(a_pin_is_refused_exactly_where_no_number_of_gpus_has_a_plan) {
    Random random(12);
    int refused = 0, had = 0;
    while (refused + had < 500) {
        std::optional<Case> c = small_case(random);
        if (!c) continue;
        PlanQuery& query = c->query;
        const auto launcher = static_cast<std::size_t>(
            random.whole(0, static_cast<std::int64_t>(launchers().size()) - 1));
        Request request;
        request.model = query.model;
        request.global_batch = query.global_batch;
        request.launcher = launchers()[launcher].name;
        const std::vector<Version> versions = launchers()[launcher].changes();
        if (!versions.empty())
            request.launcher_version = to_string(versions[static_cast<std::size_t>(
                random.whole(0, static_cast<std::int64_t>(versions.size()) - 1))]);
        const auto maybe = [&](std::vector<std::int64_t> values) {
            return random.whole(0, 1) == 0 ? 0
                                           : values[static_cast<std::size_t>(random.whole(
                                                 0, static_cast<std::int64_t>(values.size()) - 1))];
        };
        request.pin = {.pp = maybe({1, 2, 3, 4}),
                       .dp = maybe({1, 2, 3}),
                       .tp = maybe({1, 2, 3}),
                       .micro_batch = maybe({1, 2, 3}),
                       .vpp = maybe({1, 1, 2, 3}),
                       .cp = maybe({1, 1, 2, 3}),
                       .ep = maybe({1, 1, 2, 3})};
        if (random.whole(0, 2) == 0)
            request.pin.recompute = static_cast<Recompute>(random.whole(0, 2));
        if (random.whole(0, 2) == 0) request.pin.zero_stage = random.whole(0, 3);
        if (random.whole(0, 2) == 0) request.pin.sequence_parallel = random.whole(0, 1) == 1;
        if (request.pin.gpus() > 12) continue;
        query.can = capabilities_of(launcher_of(request));
        query.pin = request.pin;
        query.min_gpus = 1;
        query.max_gpus = 36;
        GpuPool& pool = query.pools.front();
        pool.gpus_per_node = pool.max_gpus = 36;
        pool.hardware.memory_bytes = std::int64_t{1} << 50;
        const std::vector<GridResult> grids = plan_grids(query);
        const bool has_plan = std::any_of(grids.begin(), grids.end(),
                                          [](const GridResult& grid) { return grid.feasible; });
        const std::string obstacle = launcher_model_obstacle(request) + pin_obstacle(request);
        const PlanPin& pin = request.pin;
        const bool has_setting = pin.zero_stage || pin.sequence_parallel;
        const bool open = (pin.ep > 1 && pin.dp * pin.tp == 0) ||
                          (has_setting && pin.pp * pin.dp * pin.tp * pin.micro_batch == 0);
        ck_assert_msg(obstacle.empty() == has_plan || (open && !has_plan),
                      "%s with %s, batch %ld, %ld layers of %s: %s; '%s'",
                      to_string(request.pin).c_str(), request.launcher.c_str(),
                      request.global_batch, request.model.layers,
                      std::string(to_string(request.model.family)).c_str(),
                      has_plan ? "has a plan" : "has none", obstacle.c_str());
        ++(has_plan ? had : refused);
    }
    ck_assert_int_gt(had, 50);
    ck_assert_int_gt(refused, 50);
}

SUITE({.timeout_s = 300});
