// SPDX-License-Identifier: GPL-2.0-or-later
// The search against plain enumeration, on seeded random cases (the seed is printed). Enumeration
// shares no code with the search but the price of one plan: it walks every degree and every
// composition of the layers.
#include "planner/plans/iteration.h"
#include "planner/plans/shard.h"
#include "planner/search/partition.h"
#include "planner/search/search.h"
#include "planner/search/shard_parts.h"
#include "planner_cases.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

// ---- the partition of layers

namespace {

/// Layers of any cost; exchange and step without any order, transfers and buffers by the last layer
/// of a stage. One kind: all layers equal.
class RandomParts final : public StageParts {
  public:
    RandomParts(Random& random, std::int64_t layers, std::int64_t stages, bool one_kind) {
        prefix_.push_back(0);
        const double each = random.real(0.5, 2);
        for (std::int64_t i = 0; i < layers; ++i)
            prefix_.push_back(prefix_.back() + (one_kind ? each : random.real(0.1, 3)));
        for (std::int64_t i = 0; i <= layers; ++i)
            sent_.push_back(one_kind ? 1 : random.real(0, 2));
        for (std::int64_t i = 0; i < stages; ++i) {
            extra_.push_back(random.real(0, 2));
            forward_share_.push_back(random.real(0, 1));
        }
        for (std::int64_t i = 0; i < stages * (layers + 1); ++i) {
            exchange_.push_back(random.real(0, 4));
            step_.push_back(random.real(0, 1));
        }
        bytes_each_ = random.of({0.0, 1.0, 3.0});
    }

    StagePart part(std::int64_t stage, std::int64_t begin, std::int64_t end) const override {
        const auto at = static_cast<std::size_t>(stage) * prefix_.size() +
                        static_cast<std::size_t>(end - begin) % prefix_.size();
        const std::size_t safe = at % exchange_.size();
        const double pass = prefix_[static_cast<std::size_t>(end)] -
                            prefix_[static_cast<std::size_t>(begin)] +
                            extra_[static_cast<std::size_t>(stage)];
        const auto n = static_cast<double>(end - begin);
        const double forward = forward_share_[static_cast<std::size_t>(stage)] * pass;
        const double sent = sent_[static_cast<std::size_t>(end)];
        return {forward + sent / 2,
                pass - forward + sent / 2,
                exchange_[safe],
                step_[safe],
                0.1 * n,
                bytes_each_ * (n * extra_[static_cast<std::size_t>(stage)] + sent),
                sent,
                bytes_each_ * sent};
    }

    double rest_s(std::int64_t, std::int64_t begin) const override {
        return prefix_.back() - prefix_[static_cast<std::size_t>(begin)];
    }

  private:
    std::vector<double> prefix_, sent_, extra_, forward_share_, exchange_, step_;
    double bytes_each_ = 0;
};

}  // namespace

TEST(the_partition_of_layers_is_the_best_of_all_compositions) {
    Random random(1);
    PlanBudget budget;
    PartitionSolver solver(budget);
    int none = 0;
    for (int n = 0; n < 10000; ++n) {
        PartitionProblem problem;
        problem.layers = random.whole(1, 9);
        problem.stages = random.whole(1, std::min<std::int64_t>(problem.layers, 5));
        problem.micro_batches = random.of<std::int64_t>({1, 2, 3, 4, 8, 100});
        problem.fixed_s = random.real(0, 1);
        problem.bytes = random.of({infinity, 8.0, 4.0});
        problem.split =
            random.of({LayerSplit::any, LayerSplit::any, LayerSplit::ends, LayerSplit::even});
        const RandomParts parts(random, problem.layers, problem.stages, n % 2 == 0);
        double best = infinity;
        each_partition(problem.layers, problem.stages, [&](const Layers& partition) {
            if (expresses(problem.split, partition))
                best = std::min(best, iteration_seconds(problem, parts, partition));
        });
        Layers found;
        const bool solved = solver.solve(problem, parts, infinity, found);
        ck_assert_msg(solved == std::isfinite(best), "case %d: found %d, best %g", n, solved, best);
        if (!solved) {
            ++none;
            continue;
        }
        ck_assert(expresses(problem.split, found));
        ck_assert_double_eq_tol(iteration_seconds(problem, parts, found), best, 1e-9 * best);
        ck_assert(!solver.solve(problem, parts, best * (1 - 1e-9), found));
    }
    ck_assert_int_gt(none, 100);
    ck_assert_int_lt(none, 5000);
}

// ---- the plan of a grid

namespace {

/// Seconds and bytes of every plan of the grid that its launcher can be told, however bad.
class Enumeration {
  public:
    Enumeration(const Case& c, const Grid& grid)
        : case_(c),
          grid_(grid),
          pool_(c.query.pools[0]),
          context_(prepare(c.query.model, pool_, c.query.global_batch).value()),
          topology_(make_topology(pool_.hardware, grid, pool_.gpus_per_node)) {}

    template <typename Visit>
    void each_plan(Visit visit) const {
        const PlanQuery& query = case_.query;
        const auto pinned_or = [](std::int64_t pin, std::int64_t value, Degree can) {
            return pin != 0 ? value == pin : value == 1 || can == Degree::free;
        };
        for (std::int64_t tp = 1; tp <= grid_.gpus_per_node; ++tp)
            for (std::int64_t mb = 1; mb <= query.global_batch; ++mb) {
                const bool pinned = query.pin.micro_batch != 0;
                if (pinned && mb != query.pin.micro_batch) continue;
                if (!tp_fits(query.model, tp) || grid_.gpus_per_node % tp != 0) continue;
                if (query.model.family == Family::wide_resnet &&
                    !pinned_or(query.pin.tp, tp, query.can.degree(Feature::convolutions)))
                    continue;
                for (std::int64_t cp = 1; cp <= 64; ++cp) {
                    const std::int64_t each = grid_.stages * tp * cp;
                    if (!pinned_or(query.pin.cp, cp, query.can.degree(Feature::cp))) continue;
                    if (grid_.gpus() % each != 0 || !cp_fits(query.model, cp)) continue;
                    const std::int64_t dp = grid_.gpus() / each;
                    if (query.global_batch % (dp * mb) != 0) continue;
                    for (std::int64_t ep = 1; ep <= dp * cp * tp; ++ep)
                        if (pinned_or(query.pin.ep, ep, query.can.degree(Feature::ep)) &&
                            dp * cp * tp % ep == 0 && ep_fits(query.model, ep))
                            each_of_shard({tp, mb, false, cp, ep}, dp, visit);
                }
            }
    }

  private:
    template <typename Visit>
    void each_of_shard(ShardShape shape, std::int64_t dp, Visit visit) const {
        const Model& model = case_.query.model;
        const std::int64_t tp = shape.tp;
        shape.sequence_parallel = case_.query.can.told.has(Feature::sp) &&
                                  is_transformer(model.family) && tp > 1 &&
                                  model.seq_length % tp == 0;
        const Shard shard(context_, topology_, shape);
        each_partition(model.layers, grid_.stages, [&](const Layers& partition) {
            Plan plan;
            plan.stage_layers = partition;
            plan.stage_dp.assign(partition.size(), dp);
            plan.stage_tp.assign(partition.size(), tp);
            plan.cp = shape.cp, plan.ep = shape.ep;
            plan.sequence_parallel = shape.sequence_parallel;
            plan.num_micro_batches = case_.query.global_batch / (dp * shape.micro_batch);
            for (const Recompute recompute :
                 {Recompute::none, Recompute::selective, Recompute::full})
                for (std::int64_t zero = 0; zero <= (dp * shape.cp > 1 ? 3 : 0); ++zero)
                    for (std::int64_t vpp = 1; vpp <= model.layers; ++vpp) {
                        plan.recompute = recompute, plan.zero_stage = zero, plan.vpp = vpp;
                        if (!is_wanted(plan)) continue;
                        const PlanChoice choice{grid_.stages, dp,      plan.num_micro_batches,
                                                recompute,    zero,    vpp,
                                                shape.cp,     shape.ep};
                        visit(price_stages(context_, topology_, shard, choice, partition));
                    }
        });
    }

    bool is_wanted(const Plan& plan) const {
        const PlanQuery& query = case_.query;
        if (query.pin.vpp != 0 ? plan.vpp != query.pin.vpp
                               : plan.vpp > 1 && query.can.degree(Feature::vpp) != Degree::free)
            return false;
        if (plan.vpp > 1 && (plan.pp() == 1 || plan.num_micro_batches % plan.pp() != 0 ||
                             plan.stage_layers[0] % plan.vpp != 0))
            return false;
        if (plan.zero_stage > 0 && !query.can.searches_zero(plan.zero_stage, plan.pp()))
            return false;
        const Feature recompute = plan.recompute == Recompute::full ? Feature::recompute_full
                                                                    : Feature::recompute_selective;
        if (plan.recompute != Recompute::none && query.can.degree(recompute) != Degree::free)
            return false;
        return expresses(query.can, query.model, plan);
    }

    const Case& case_;
    const Grid& grid_;
    const GpuPool& pool_;
    PoolContext context_;
    Topology topology_;
};

}  // namespace

namespace {

/// What the enumerated grids were like.
struct Seen {
    long cases = 0, plans = 0, infeasible = 0;
    long piped = 0, uneven = 0, interleaved = 0, odd_tp = 0, context = 0, expert = 0;  // best plans
    long changing_rails = 0;

    void add(const Plan& plan) {
        piped += plan.pp() > 1 ? 1 : 0;
        uneven += expresses(LayerSplit::even, plan.stage_layers) ? 0 : 1;
        interleaved += plan.vpp > 1 ? 1 : 0;
        odd_tp += plan.tp() % 3 == 0 ? 1 : 0;
        context += plan.cp > 1 ? 1 : 0;
        expert += plan.ep > 1 ? 1 : 0;
    }
    void print(const char* layers) const {
        std::printf(
            "seed %llu: %ld cases of layers %s, %ld plans, %ld infeasible grids; best plans: %ld "
            "of "
            "several stages, %ld uneven, %ld interleaved, %ld of tp 3 or 6, %ld of cp, %ld of ep\n",
            static_cast<unsigned long long>(seed()), cases, layers, plans, infeasible, piped,
            uneven, interleaved, odd_tp, context, expert);
    }
};

void check_choice(const Case& c, Seen& seen) {
    ++seen.cases;
    const double limit = static_cast<double>(c.query.pools[0].hardware.memory_bytes);
    for (const GridResult& result : plan_grids(c.query)) {
        double best = infinity;
        Enumeration(c, result.grid).each_plan([&](const Estimate& e) {
            ++seen.plans;
            if (e.memory_bytes_per_gpu <= limit) best = std::min(best, e.iteration_s);
        });
        ck_assert_msg(result.feasible == std::isfinite(best), "case %ld: %s, best %g", seen.cases,
                      result.feasible ? "a plan" : result.reason.c_str(), best);
        seen.infeasible += result.feasible ? 0 : 1;
        if (!result.feasible) continue;
        ck_assert_msg(std::fabs(result.estimate.iteration_s / best - 1) < 1e-12,
                      "case %ld: %s takes %.17g, the best takes %.17g", seen.cases,
                      short_form(result.plan).c_str(), result.estimate.iteration_s, best);
        ck_assert(expresses(c.query.can, c.query.model, result.plan));
        seen.add(result.plan);
        const GpuPool& pool = c.query.pools[0];
        const Topology t = make_topology(pool.hardware, result.grid, pool.gpus_per_node);
        seen.changing_rails +=
            cross_rail_slowdown(t, dp_group(t, result.plan.dp(), result.plan.tp())) > 1 ? 1 : 0;
    }
}

bool is_homogeneous(const Model& model) { return layer_list(model).kinds.size() == 1; }

}  // namespace

TEST(the_chosen_plan_is_the_best_of_all_plans_of_the_grid) {
    Random random(2);
    Seen seen;
    while (seen.cases < 1000)
        if (const auto c = small_case(random); c && is_homogeneous(c->query.model))
            check_choice(*c, seen);
    seen.print("equal");
    ck_assert_int_gt(seen.plans, 100000);
    ck_assert_int_gt(seen.infeasible, 50);
    ck_assert_int_gt(seen.uneven, 50);
    ck_assert_int_gt(seen.odd_tp, 10);
    ck_assert_int_gt(seen.context, 20);
    ck_assert_int_gt(seen.expert, 10);
}

/// Three or four nodes of four GPUs: replicas of tp 2 share nodes but do not fill them.
TEST(the_same_where_replicas_change_rails) {
    Random random(17);
    Seen seen;
    while (seen.cases < 200) {
        std::optional<Case> c = small_case(random);
        if (!c) continue;
        GpuPool& pool = c->query.pools[0];
        pool.gpus_per_node = 4, pool.max_gpus = 16;
        pool.hardware.inter.cross_rail_cost = random.of({0.1, 1.5});
        c->query.min_gpus = c->query.max_gpus = random.of<std::int64_t>({12, 16});
        c->query.global_batch = c->query.min_gpus / 2;  // too small for a replica on each GPU
        pool.hardware.memory_bytes *= 2;
        check_choice(*c, seen);
    }
    seen.print("of either sort, many nodes");
    ck_assert_int_gt(seen.changing_rails, 1);
}

TEST(the_same_for_layers_that_differ) {
    Random random(13);
    Seen seen;
    while (seen.cases < 1000)
        if (const auto c = small_case(random); c && !is_homogeneous(c->query.model))
            check_choice(*c, seen);
    seen.print("that differ");
    ck_assert_int_gt(seen.plans, 100000);
    ck_assert_int_gt(seen.infeasible, 50);
    ck_assert_int_gt(seen.piped, 300);
    ck_assert_int_gt(seen.uneven, 100);
    ck_assert_int_gt(seen.interleaved, 10);
}

namespace {

/// What the program that partitions layers is told of the stages from each one on.
void bounds_hold_for(const PoolContext& context, const Topology& topology, const Shard& shard,
                     const PlanChoice& choice, const Layers& partition) {
    PartBuffers buffers;
    const ShardParts parts(context, topology, shard, choice, buffers);
    std::int64_t begin = context.model.layers;
    double sum = 0, longest = 0;
    for (std::int64_t i = choice.stages; i-- > 0;) {
        const std::int64_t end = begin;
        begin -= partition[static_cast<std::size_t>(i)];
        const double pass_s = parts.part(i, begin, end).pass_s() * (1 + 1e-12);
        sum += pass_s, longest = std::max(longest, pass_s);
        ck_assert_double_ge(sum, parts.rest_s(i, begin));
        ck_assert_double_ge(longest, parts.longest_s(i, begin));
        if (i + 1 == choice.stages) ck_assert_double_ge(pass_s, parts.last_s());
    }
}

}  // namespace

TEST(a_plan_takes_as_long_as_its_stages_say) {
    Random random(11);
    for (int n = 0; n < 5000; ++n) {
        const Priced p = any_priced(random);
        const PoolContext context = prepare(p.model, p.pool, p.batch).value();
        const Topology topology = make_topology(p.pool.hardware, p.grid, p.pool.gpus_per_node);
        const Shard shard(context, topology,
                          {p.plan.tp(), p.plan.micro_batch, p.plan.sequence_parallel});
        const PlanChoice choice{p.plan.pp(), p.plan.dp(), p.plan.num_micro_batches,
                                p.plan.recompute, p.plan.zero_stage};
        const Iteration iteration(context, topology, shard, choice);
        PipelineLength pipeline;
        double exchange = 0, step = 0, host = 0, bytes = 0;
        std::int64_t begin = 0;
        for (std::int64_t i = 0; i < p.plan.pp(); ++i) {
            const std::int64_t end = begin + p.plan.stage_layers[static_cast<std::size_t>(i)];
            const StagePart part = iteration.part(i, {begin, end});
            pipeline.add(part.forward_s, part.backward_s,
                         std::min(choice.micro_batches, choice.stages - i), choice.micro_batches);
            exchange = std::max(exchange, part.exchange_s);
            step = std::max(step, part.step_s), host = std::max(host, part.host_s);
            bytes = std::max(bytes, part.bytes);
            ck_assert_double_ge(part.pass_s(), iteration.least_extra_s(i));
            ck_assert_double_ge(
                part.pass_s() * (1 + 1e-12),
                iteration.least_extra_s(i) + iteration.least_layers_s({begin, end}));
            begin = end;
        }
        ck_assert_double_ge((exchange + step + host) * (1 + 1e-12), iteration.least_ends_s());
        bounds_hold_for(context, topology, shard, choice, p.plan.stage_layers);
        const Estimate e = p.price();
        const double sum = pipeline.closed_s + exchange + step + host + iteration.fixed_s();
        ck_assert_double_eq_tol(sum, e.iteration_s, 1e-9 * sum);
        ck_assert(bytes == e.memory_bytes_per_gpu);
    }
}

/// Entries of one layer each are the same model as one entry of as many.
TEST(equal_entries_of_a_list_are_one_entry_with_a_count) {
    Random random(12);
    for (int n = 0; n < 2000; ++n) {
        Priced p = any_priced(random);
        if (p.model.family != Family::custom) continue;
        CustomLayer one = p.model.custom_layers[0];
        if (one.output_bytes == 0) one.output_bytes = one.activation_bytes;
        one.count = p.model.layers;
        p.model.custom_layers = {one};
        const Estimate whole = p.price();
        one.count = 1;
        p.model.custom_layers.assign(static_cast<std::size_t>(p.model.layers), one);
        for (std::size_t i = 0; i < p.model.custom_layers.size();
             ++i)  // so that they are not merged
            p.model.custom_layers[i].name = std::to_string(i);
        const Estimate apart = p.price();
        ck_assert_double_eq_tol(whole.iteration_s, apart.iteration_s, 1e-9 * whole.iteration_s);
        ck_assert_double_eq_tol(whole.bubble_s, apart.bubble_s, 1e-9 * whole.iteration_s);
        ck_assert_double_eq_tol(whole.memory_bytes_per_gpu, apart.memory_bytes_per_gpu, 1);
    }
}

/// One layer as heavy as the four others: the mean would put two or three on each stage.
TEST(stages_balance_layers_that_differ) {
    Model m;
    m.name = "list";
    m.family = Family::custom;
    m.precision = Precision::fp16;
    for (const double work : {4.0, 1.0, 1.0, 1.0, 1.0})
        m.custom_layers.push_back({"", 1, work * 1e13, 1e6, 1e6, 1e3});
    PlanQuery query{*complete_model(m, "list"), 64, 2, 2, {}, {}, all_capabilities()};
    query.pin = {2, 1, 1, 1};
    query.pools = {{"x", *find_hardware(all_hardware(), "A100-SXM-80GB"), 8, 2, {}, {}, {}}};
    const std::vector<GridResult> grids = plan_grids(query);
    ck_assert_uint_eq(grids.size(), 1);
    ck_assert(grids[0].feasible);
    ck_assert(grids[0].plan.stage_layers == (Layers{1, 4}));
    std::swap(query.model.custom_layers.front(), query.model.custom_layers.back());
    ck_assert(plan_grids(query)[0].plan.stage_layers == (Layers{4, 1}));
}

TEST(the_pareto_set_is_beaten_by_no_plan) {
    Random random(3);
    for (int n = 0; n < 200; ++n) {
        const std::optional<Case> c = small_case(random);
        if (!c) continue;
        const std::vector<GridResult> set = plan_pareto(c->query);
        double fastest = infinity;
        for (const GridResult& grid : plan_grids(c->query))
            if (grid.feasible) fastest = std::min(fastest, grid.estimate.iteration_s);
        double last_s = 0, last_bytes = infinity;
        for (const GridResult& r : set) {
            if (!r.feasible) continue;
            if (last_s == 0)
                ck_assert_double_eq_tol(r.estimate.iteration_s, fastest, 1e-12 * fastest);
            ck_assert_double_gt(r.estimate.iteration_s, last_s);
            ck_assert_double_lt(r.estimate.memory_bytes_per_gpu, last_bytes);
            last_s = r.estimate.iteration_s, last_bytes = r.estimate.memory_bytes_per_gpu;
        }
        ck_assert((last_s == 0) == std::isinf(fastest));
    }
}

/// Even stages leave each candidate one partition of layers, so that enumeration knows all of them.
TEST(every_plan_of_even_stages_is_beaten_by_the_pareto_set_or_in_it) {
    Random random(4);
    long plans = 0, kept = 0;
    for (int n = 0; n < 600; ++n) {
        std::optional<Case> c = small_case(random);
        if (!c) continue;
        c->query.can.set(LayerSplit::even);
        const double limit = static_cast<double>(c->query.pools[0].hardware.memory_bytes);
        const std::vector<GridResult> set = plan_pareto(c->query);
        for (const GridResult& grid : plan_grids(c->query))
            Enumeration(*c, grid.grid).each_plan([&](const Estimate& e) {
                if (e.memory_bytes_per_gpu > limit) return;
                ++plans;
                const auto as_good = [&](const GridResult& r) {
                    return r.feasible && r.grid.gpus() == grid.grid.gpus() &&
                           r.estimate.iteration_s <= e.iteration_s * (1 + 1e-12) &&
                           r.estimate.memory_bytes_per_gpu <= e.memory_bytes_per_gpu + 1;
                };
                ck_assert_msg(std::any_of(set.begin(), set.end(), as_good), "case %d: %g s", n,
                              e.iteration_s);
            });
        kept += std::count_if(set.begin(), set.end(), [](const auto& r) { return r.feasible; });
    }
    ck_assert_int_gt(plans, 5000);
    ck_assert_int_gt(kept, 200);
    ck_assert_int_lt(kept, plans / 4);
}

/// More partial partitions than anyone can look at: the evenest partition stands, within a percent
/// of the mean.
TEST(ten_thousand_layers_are_partitioned_evenly_within_the_steps_allowed) {
    for (const bool equal : {true, false}) {
        Model m;
        m.name = "list";
        m.family = Family::custom;
        m.precision = Precision::bf16;
        m.custom_layers = {{"", 5000, 1e13, 1e6, 1e6, 1e6},
                           {"", 5000, equal ? 1e13 : 2e13, 1e6, 1e6, 1e6}};
        PlanQuery query{*complete_model(m, "list"), 64, 8, 8, {}, {}, all_capabilities()};
        query.can.set(Feature::vpp, Degree::pinned);
        query.pools = {{"x", *find_hardware(all_hardware(), "A100-SXM-80GB"), 8, 8, {}, {}, {}}};
        const auto context = prepare(query.model, query.pools[0], query.global_batch);
        for (const LayerSplit split : {LayerSplit::any, LayerSplit::ends}) {
            query.can.set(split);
            PlanBudget budget;
            PoolSearch search(query, *context, budget);
            const GridResult grid = search.search({1, 8}, 8);
            ck_assert_msg(grid.feasible, "%s", grid.reason.c_str());
            ck_assert(expresses(query.can, query.model, grid.plan));
            ck_assert_int_ge(search.partition_steps_left(), 0);
            if (split == LayerSplit::ends && !equal) continue;  // such stages cannot be even
            const double work = equal ? 10000e13 : 15000e13;
            std::int64_t begin = 0;
            for (const std::int64_t own : grid.plan.stage_layers) {
                const std::int64_t end = begin + own;
                const auto cheap =
                    static_cast<double>(std::clamp<std::int64_t>(5000 - begin, 0, own));
                const double stage =
                    1e13 * (cheap + (static_cast<double>(own) - cheap) * (equal ? 1 : 2));
                ck_assert_double_eq_tol(stage, work / 8, 0.02 * work / 8);
                begin = end;
            }
        }
    }
}

SUITE({.timeout_s = 300});
