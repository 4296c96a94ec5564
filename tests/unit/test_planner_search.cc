// SPDX-License-Identifier: GPL-2.0-or-later
// The search against plain enumeration, and the physics of the prices, on seeded random cases
// (ARENA_SEED=N repeats a run; the seed is printed). Enumeration shares no code with the search but
// the price of one plan: it walks every degree and every composition of the layers.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "planner/hardware.h"
#include "planner/mixed.h"
#include "planner/model.h"
#include "planner/offers.h"
#include "planner/partition.h"
#include "planner/planner.h"
#include "planner/search.h"
#include "planner/shard.h"

// clang-format off
#include <check.h>  // after the C++ library: it defines fail()
// clang-format on

using namespace arena;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::uint64_t seed() {
    const char* text = std::getenv("ARENA_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 20260101;
}

class Random {
  public:
    explicit Random(std::uint64_t stream) : engine_(seed() * 1000003 + stream) {}
    std::int64_t whole(std::int64_t min, std::int64_t max) {
        return std::uniform_int_distribution<std::int64_t>(min, max)(engine_);
    }
    double real(double min, double max) {
        return std::uniform_real_distribution<double>(min, max)(engine_);
    }
    template <typename T>
    T of(std::initializer_list<T> list) {
        return list.begin()[whole(0, static_cast<std::int64_t>(list.size()) - 1)];
    }

  private:
    std::mt19937_64 engine_;
};

using Layers = std::vector<std::int64_t>;

/// Calls visit with every way to give `layers` layers to `stages` stages, at least one each.
void each_deal(std::int64_t layers, std::int64_t stages,
               const std::function<void(const Layers&)>& visit) {
    Layers deal(static_cast<std::size_t>(stages), 1);
    const std::function<void(std::size_t, std::int64_t)> fill = [&](std::size_t at,
                                                                    std::int64_t left) {
        if (at + 1 == deal.size()) {
            deal[at] = left;
            return visit(deal);
        }
        const auto after = static_cast<std::int64_t>(deal.size() - at - 1);
        for (deal[at] = 1; deal[at] <= left - after; ++deal[at]) fill(at + 1, left - deal[at]);
    };
    if (stages <= layers) fill(0, layers);
}

// ---- the deal of layers
// ---------------------------------------------------------------------------

/// Layers of any cost; exchange and step without any order. One kind: all layers alike.
class RandomParts final : public StageParts {
  public:
    RandomParts(Random& random, std::int64_t layers, std::int64_t stages, bool one_kind)
        : one_kind_(one_kind) {
        prefix_.push_back(0);
        const double each = random.real(0.5, 2);
        for (std::int64_t i = 0; i < layers; ++i)
            prefix_.push_back(prefix_.back() + (one_kind ? each : random.real(0.1, 3)));
        for (std::int64_t i = 0; i < stages; ++i) extra_.push_back(random.real(0, 2));
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
        return {pass, exchange_[safe], step_[safe], 0.1 * n,
                bytes_each_ * n * extra_[static_cast<std::size_t>(stage)]};
    }

    double rest_s(std::int64_t begin) const override {
        return prefix_.back() - prefix_[static_cast<std::size_t>(begin)];
    }
    bool is_monotone() const override { return one_kind_; }

  private:
    bool one_kind_;
    std::vector<double> prefix_, extra_, exchange_, step_;
    double bytes_each_ = 0;
};

}  // namespace

START_TEST(the_deal_of_layers_is_the_best_of_all_compositions) {
    Random random(1);
    PartitionSolver solver;
    int none = 0;
    for (int n = 0; n < 10000; ++n) {
        PartitionProblem problem;
        problem.layers = random.whole(1, 9);
        problem.stages = random.whole(1, std::min<std::int64_t>(problem.layers, 5));
        problem.pass_weight = random.of({0.0, 1.0, 7.0, 100.0});
        problem.fixed_s = random.real(0, 1);
        problem.bytes = random.of({infinity, 8.0, 4.0});
        problem.split =
            random.of({LayerSplit::any, LayerSplit::any, LayerSplit::ends, LayerSplit::even});
        const RandomParts parts(random, problem.layers, problem.stages, n % 2 == 0);
        double best = infinity;
        each_deal(problem.layers, problem.stages, [&](const Layers& deal) {
            if (expresses(problem.split, deal))
                best = std::min(best, iteration_seconds(problem, parts, deal));
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
END_TEST

// ---- the plan of a grid
// ---------------------------------------------------------------------------

namespace {

const std::vector<GpuType>& all_hardware() {
    static const auto types = load_hardware("");
    ck_assert_msg(types.ok(), "%s", types.ok() ? "" : types.error().message().c_str());
    return *types;
}

Model small_model(Random& random, std::int64_t max_layers) {
    Model m;
    m.name = "small";
    m.family = random.of({Family::gpt, Family::llama, Family::bert});
    set_family_flags(m);
    m.layers = random.whole(1, max_layers);
    m.heads = random.of<std::int64_t>({4, 8, 12, 16});
    m.hidden = m.heads * random.of<std::int64_t>({32, 64, 128});
    m.ffn_hidden = 4 * m.hidden;
    m.vocab = random.whole(1000, 60000);
    m.seq_length = random.of<std::int64_t>({128, 512, 1024, 2048});
    m.precision = random.of({Precision::fp32, Precision::fp16, Precision::bf16});
    const Result<Model> model = complete_model(m, "generated");
    ck_assert(model.ok());
    return *model;
}

struct Case {
    PlanQuery query;
    Precision precision = Precision::fp32;
};

/// At most 8 GPUs and 12 layers; memory often binds; launchers and pins of all sorts.
std::optional<Case> small_case(Random& random) {
    Case c;
    c.query.model = small_model(random, 12);
    c.query.global_batch = random.of<std::int64_t>({1, 4, 6, 8, 16, 24, 32});
    GpuPool pool;
    pool.hardware = all_hardware()[static_cast<std::size_t>(
        random.whole(0, static_cast<std::int64_t>(all_hardware().size()) - 1))];
    pool.hardware.memory_bytes = static_cast<std::int64_t>(
        static_cast<double>(pool.hardware.memory_bytes) * random.of({1.0, 0.5, 0.2, 0.15}));
    pool.gpu_type = "x";
    pool.gpus_per_node = random.of<std::int64_t>({1, 2, 4, 8});
    pool.max_gpus = 8;
    c.query.pools = {pool};
    c.query.min_gpus = c.query.max_gpus = random.whole(1, 8);
    const auto launcher =
        static_cast<std::size_t>(random.whole(0, static_cast<std::int64_t>(launchers().size())));
    c.query.can = launcher < launchers().size() ? launchers()[launcher].can : all_capabilities();
    c.query.can.mixed_stages = false;  // enumerated apart
    if (random.whole(0, 4) == 0) c.query.pin.micro_batch = random.of<std::int64_t>({1, 2, 3});
    if (random.whole(0, 4) == 0 && c.query.can.vpp != Degree::no)
        c.query.pin.vpp = random.whole(1, 3);
    const auto precision = effective_precision(pool.hardware, c.query.model.precision);
    if (!precision) return std::nullopt;
    c.precision = *precision;
    return c;
}

bool is_power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

/// Seconds and bytes of every plan of the grid that its launcher can be told, however bad.
class Enumeration {
  public:
    Enumeration(const Case& c, const Grid& grid)
        : case_(c),
          grid_(grid),
          pool_(c.query.pools[0]),
          context_(make_context(c.query.model, pool_, c.query.global_batch, c.precision)),
          topology_(make_topology(pool_.hardware, grid, pool_.gpus_per_node)) {}

    template <typename Visit>
    void each_plan(Visit visit) const {
        const PlanQuery& query = case_.query;
        for (std::int64_t tp = 1; tp <= grid_.gpus_per_node; ++tp)
            for (std::int64_t mb = 1; mb <= query.global_batch; ++mb) {
                const bool pinned = query.pin.micro_batch != 0;
                if (pinned && mb != query.pin.micro_batch) continue;
                if (!is_power_of_two(tp) || !tp_fits(query.model, tp)) continue;
                if (grid_.gpus_per_node % tp != 0) continue;
                for (std::int64_t cp = 1; cp <= (query.can.cp == Degree::free ? 64 : 1); cp *= 2) {
                    const std::int64_t each = grid_.stages * tp * cp;
                    if (grid_.gpus() % each != 0 || !cp_fits(query.model, cp)) continue;
                    const std::int64_t dp = grid_.gpus() / each;
                    if (query.global_batch % (dp * mb) == 0) each_of_shard(tp, mb, cp, dp, visit);
                }
            }
    }

  private:
    template <typename Visit>
    void each_of_shard(std::int64_t tp, std::int64_t mb, std::int64_t cp, std::int64_t dp,
                       Visit visit) const {
        const Model& model = case_.query.model;
        ShardShape shape;
        shape.tp = tp;
        shape.micro_batch = mb;
        shape.cp = cp;
        shape.sequence_parallel =
            case_.query.can.sequence_parallel && tp > 1 && model.seq_length % tp == 0;
        const Shard shard(context_, topology_, shape);
        std::vector<double> scratch(static_cast<std::size_t>(grid_.stages));
        each_deal(model.layers, grid_.stages, [&](const Layers& deal) {
            Plan plan;
            plan.stage_layers = deal;
            plan.stage_dp.assign(deal.size(), dp);
            plan.stage_tp.assign(deal.size(), tp);
            plan.cp = cp;
            plan.sequence_parallel = shape.sequence_parallel;
            plan.num_micro_batches = case_.query.global_batch / (dp * mb);
            for (const Recompute recompute :
                 {Recompute::none, Recompute::selective, Recompute::full})
                for (std::int64_t zero = 0; zero <= (dp > 1 ? 3 : 0); ++zero)
                    for (std::int64_t vpp = 1; vpp <= model.layers; ++vpp) {
                        plan.recompute = recompute, plan.zero_stage = zero, plan.vpp = vpp;
                        if (!is_wanted(plan)) continue;
                        const PlanChoice choice{
                            grid_.stages, dp, plan.num_micro_batches, recompute, zero, vpp, cp, 1};
                        visit(price_stages(context_, topology_, shard, choice, deal, scratch));
                    }
        });
    }

    bool is_wanted(const Plan& plan) const {
        const PlanQuery& query = case_.query;
        if (query.pin.vpp != 0 ? plan.vpp != query.pin.vpp
                               : plan.vpp > 1 && query.can.vpp != Degree::free)
            return false;
        if (plan.vpp > 1 && (plan.pp() == 1 || plan.num_micro_batches % plan.pp() != 0 ||
                             plan.stage_layers[0] % plan.vpp != 0))
            return false;
        return expresses(query.can, plan);
    }

    const Case& case_;
    const Grid& grid_;
    const GpuPool& pool_;
    PoolContext context_;
    Topology topology_;
};

}  // namespace

START_TEST(the_chosen_plan_is_the_best_of_all_plans_of_the_grid) {
    Random random(2);
    long cases = 0, plans = 0, infeasible = 0, uneven = 0;
    while (cases < 1000) {
        const std::optional<Case> c = small_case(random);
        if (!c) continue;
        ++cases;
        const double limit = static_cast<double>(c->query.pools[0].hardware.memory_bytes);
        for (const GridResult& result : plan_grids(c->query)) {
            double best = infinity;
            Enumeration(*c, result.grid).each_plan([&](const Estimate& e) {
                ++plans;
                if (e.memory_bytes_per_gpu <= limit) best = std::min(best, e.iteration_s);
            });
            ck_assert_msg(result.feasible == std::isfinite(best), "case %ld: %s, best %g", cases,
                          result.feasible ? "a plan" : result.reason.c_str(), best);
            infeasible += result.feasible ? 0 : 1;
            if (!result.feasible) continue;
            ck_assert_msg(std::fabs(result.estimate.iteration_s / best - 1) < 1e-12,
                          "case %ld: %s takes %.17g, the best takes %.17g", cases,
                          short_form(result.plan).c_str(), result.estimate.iteration_s, best);
            ck_assert(expresses(c->query.can, result.plan));
            uneven += expresses(LayerSplit::even, result.plan.stage_layers) ? 0 : 1;
        }
    }
    std::printf("seed %llu: %ld cases, %ld plans, %ld infeasible grids, %ld uneven best plans\n",
                static_cast<unsigned long long>(seed()), cases, plans, infeasible, uneven);
    ck_assert_int_gt(plans, 100000);
    ck_assert_int_gt(infeasible, 50);
    ck_assert_int_gt(uneven, 50);
}
END_TEST

namespace {

/// A plan of a random small model that can be priced.
struct Priced {
    Model model;
    GpuPool pool;
    Grid grid;
    Plan plan;
    std::int64_t batch = 1;

    [[nodiscard]] Estimate price() const {
        const auto estimate = price_plan(model, batch, grid, plan, pool);
        ck_assert_msg(estimate.ok(), "%s", estimate.ok() ? "" : estimate.error().message().c_str());
        return *estimate;
    }
};

Priced any_priced(Random& random) {
    for (;;) {
        Priced p;
        p.model = small_model(random, 24);
        p.pool.hardware = all_hardware()[static_cast<std::size_t>(
            random.whole(0, static_cast<std::int64_t>(all_hardware().size()) - 1))];
        p.pool.gpu_type = "x";
        p.pool.gpus_per_node = 8;
        const std::int64_t tp = random.of<std::int64_t>({1, 2, 4});
        const std::int64_t pp = random.whole(1, std::min<std::int64_t>(4, p.model.layers));
        const std::int64_t dp = random.of<std::int64_t>({1, 2, 4});
        if (!tp_fits(p.model, tp) || !effective_precision(p.pool.hardware, p.model.precision))
            continue;
        p.plan.stage_layers.assign(static_cast<std::size_t>(pp), p.model.layers / pp);
        p.plan.stage_layers.back() += p.model.layers % pp;
        p.plan.stage_dp.assign(static_cast<std::size_t>(pp), dp);
        p.plan.stage_tp.assign(static_cast<std::size_t>(pp), tp);
        p.plan.micro_batch = random.of<std::int64_t>({1, 2, 4});
        p.plan.num_micro_batches = random.whole(1, 32);
        p.plan.recompute = random.of({Recompute::none, Recompute::selective, Recompute::full});
        p.plan.zero_stage = dp > 1 ? random.whole(0, pp > 1 ? 1 : 3) : 0;
        p.plan.sequence_parallel = tp > 1 && random.whole(0, 1) == 1;
        p.batch = dp * p.plan.micro_batch * p.plan.num_micro_batches;
        p.grid = {"x", 1, pp * dp * tp, pp};
        if (p.grid.gpus_per_node > 8)
            p.grid.nodes = p.grid.gpus_per_node / 8, p.grid.gpus_per_node = 8;
        if (p.grid.gpus() != pp * dp * tp) continue;
        return p;
    }
}

/// Calls visit with every way to lay `stages` stages with mixed dp and tp over the GPUs of the
/// grid, layers and schedule aside; samples = those of a micro-batch.
void each_mix(const Case& c, const Grid& grid, std::int64_t samples, Plan& plan,
              std::int64_t gpus_left, const std::function<void()>& visit) {
    const std::int64_t stages = grid.stages - static_cast<std::int64_t>(plan.stage_dp.size());
    if (stages == 0) {
        if (gpus_left == 0) visit();
        return;
    }
    for (std::int64_t tp = 1; tp <= grid.gpus_per_node; tp *= 2)
        for (std::int64_t dp = 1; dp * tp <= gpus_left; ++dp) {
            if (samples % dp != 0 || !tp_fits(c.query.model, tp)) continue;
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
            plan.sequence_parallel = c.query.model.seq_length % 2 == 0;
            each_deal(c.query.model.layers, grid.stages, [&](const Layers& deal) {
                plan.stage_layers = deal;
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

START_TEST(stages_that_differ_are_the_best_of_all_that_do) {
    Random random(8);
    long plans = 0, chosen = 0;
    for (int n = 0; n < 600;) {
        std::optional<Case> c = small_case(random);
        if (!c || c->query.model.layers > 6 || c->query.global_batch > 16) continue;
        ++n;
        c->query.pin = {};
        c->query.can = all_capabilities();
        c->query.can.mixed_stages = false;
        const std::vector<GridResult> uniform = plan_grids(c->query);
        c->query.can.mixed_stages = true;
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
    std::printf("%ld mixed plans, %ld chosen\n", plans, chosen);
    ck_assert_int_gt(plans, 10000);
    ck_assert_int_gt(chosen, 10);
}
END_TEST

START_TEST(mixed_prices_of_uniform_plans_are_the_uniform_prices) {
    Random random(9);
    for (int n = 0; n < 2000;) {
        const Priced p = any_priced(random);
        const std::int64_t each = p.plan.dp() * p.plan.tp(), per_node = p.grid.gpus_per_node;
        if (each < per_node ? per_node % each != 0 : each % per_node != 0) continue;
        if (p.plan.sequence_parallel != default_sequence_parallel(p.model, p.plan.tp())) continue;
        ++n;
        const PoolContext context = make_context(
            p.model, p.pool, p.batch, *effective_precision(p.pool.hardware, p.model.precision));
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
END_TEST

START_TEST(the_pareto_set_is_beaten_by_no_plan) {
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
END_TEST

// ---- physics
// --------------------------------------------------------------------------------------

namespace {

constexpr int physics_cases = 10000;
constexpr double rounding = 1 + 1e-12;

}  // namespace

START_TEST(more_micro_batches_lower_the_bubble_share) {
    Random random(4);
    for (int n = 0; n < physics_cases; ++n) {
        Priced p = any_priced(random);
        const Estimate few = p.price();
        const std::int64_t times = random.whole(2, 5);
        p.plan.num_micro_batches *= times, p.batch *= times;
        const Estimate many = p.price();
        ck_assert_double_le(many.bubble_s / many.iteration_s,
                            few.bubble_s / few.iteration_s * rounding);
        if (p.plan.pp() > 1)
            ck_assert_double_lt(many.bubble_s / many.iteration_s, few.bubble_s / few.iteration_s);
    }
}
END_TEST

START_TEST(tensor_parallelism_across_nodes_is_never_faster_than_inside) {
    Random random(5);
    int compared = 0;
    for (int n = 0; n < 8 * physics_cases && compared < physics_cases; ++n) {
        Priced p = any_priced(random);
        const std::int64_t gpus = p.grid.gpus();
        const GpuType& type = p.pool.hardware;
        if (p.plan.tp() < 2 || gpus > 8) continue;
        if (type.inter.bytes_per_s / static_cast<double>(p.pool.gpus_per_node) >=
            type.intra.bytes_per_s)
            continue;
        const Estimate inside = p.price();
        p.grid.nodes = gpus, p.grid.gpus_per_node = 1;
        ck_assert_double_ge(p.price().iteration_s * rounding, inside.iteration_s);
        ++compared;
    }
    ck_assert_int_eq(compared, physics_cases);
}
END_TEST

START_TEST(sharded_optimizers_never_need_more_memory_on_more_replicas) {
    Random random(6);
    for (int n = 0; n < physics_cases; ++n) {
        Priced p = any_priced(random);
        p.plan.zero_stage = random.whole(1, 3);
        const double before = p.price().memory_bytes_per_gpu;
        for (std::int64_t& dp : p.plan.stage_dp) dp *= 2;
        p.batch *= 2;
        p.grid.nodes *= 2;
        ck_assert_double_le(p.price().memory_bytes_per_gpu, before * rounding);
    }
}
END_TEST

START_TEST(twice_the_rates_never_take_longer) {
    Random random(7);
    for (int n = 0; n < physics_cases; ++n) {
        Priced p = any_priced(random);
        const double before = p.price().iteration_s;
        for (auto& [precision, flops] : p.pool.hardware.flops) flops *= 2;
        p.pool.hardware.memory_bytes_per_s *= 2;
        p.pool.hardware.intra.bytes_per_s *= 2;
        p.pool.hardware.inter.bytes_per_s *= 2;
        ck_assert_double_le(p.price().iteration_s, before * rounding);
    }
}
END_TEST

// ---- offers
// ---------------------------------------------------------------------------------------

namespace {

std::vector<Offer> three_offers() {
    std::vector<Offer> offers(3);
    for (std::size_t i = 0; i < offers.size(); ++i) {
        Offer& o = offers[i];
        o.grid = {"a40", 1, std::int64_t{8} >> i, 1};
        o.plan.stage_layers = {12}, o.plan.stage_tp = {1}, o.plan.stage_dp = {o.grid.gpus()};
        o.estimate.iteration_s = o.estimate.compute_s = std::exp2(static_cast<double>(i));
        o.estimate.samples_per_s = 64 / o.estimate.iteration_s;
        o.estimate.error_bound = 0.4;
    }
    return offers;
}

}  // namespace

START_TEST(a_run_corrects_its_offer_and_damped_its_neighbours) {
    std::vector<Offer> offers = three_offers();
    offers.push_back(offers[0]);
    offers[3].grid.gpu_type = "a100";
    const Observation run{offers[0].grid, offers[0].plan, 1.5, 1.0, 0.01};
    const std::vector<Offer> corrected = correct_offers(offers, std::vector{run});
    const auto at = [&](const char* type, std::int64_t gpus) -> const Offer& {
        return *std::find_if(corrected.begin(), corrected.end(), [&](const Offer& o) {
            return o.grid.gpu_type == type && o.grid.gpus() == gpus;
        });
    };
    ck_assert_double_eq_tol(at("a40", 8).estimate.iteration_s, 1.5, 1e-12);
    ck_assert_double_eq_tol(at("a40", 8).estimate.samples_per_s, 64 / 1.5, 1e-9);
    ck_assert(at("a40", 8).estimate.source == Source::observed);
    ck_assert_double_eq_tol(at("a40", 8).estimate.error_bound, observed_error, 1e-12);
    ck_assert_double_eq_tol(at("a40", 4).estimate.iteration_s, 2 * std::pow(1.5, 0.25), 1e-12);
    ck_assert_double_eq_tol(at("a40", 2).estimate.iteration_s, 4 * std::pow(1.5, 0.125), 1e-12);
    ck_assert(at("a40", 4).estimate.source == Source::analytic);
    ck_assert_double_lt(at("a40", 4).estimate.error_bound, 0.4);
    ck_assert_double_gt(at("a40", 4).estimate.error_bound, observed_error);
    ck_assert(at("a100", 8) == offers[3]);
    for (std::size_t i = 1; i < corrected.size(); ++i)
        ck_assert_double_le(corrected[i].estimate.samples_per_s,
                            corrected[i - 1].estimate.samples_per_s);
    // The second report of the same plan replaces the first; nonsense is left out.
    std::vector<Observation> list;
    add_observation(list, run);
    add_observation(list, {run.grid, run.plan, 1.2, 1.0, 0.2});
    add_observation(list, {run.grid, offers[1].plan, 1e9, 1.0, 0});
    add_observation(list, {run.grid, offers[1].plan, 0, 1.0, 0});
    ck_assert_uint_eq(list.size(), 1);
    const std::vector<Offer> again = correct_offers(offers, list);
    const auto own = std::find_if(again.begin(), again.end(), [](const Offer& o) {
        return o.estimate.source == Source::observed;
    });
    ck_assert_double_eq_tol(own->estimate.iteration_s, 1.2, 1e-12);
    ck_assert_double_eq_tol(own->estimate.error_bound, 0.2, 1e-12);
    ck_assert(correct_offers(offers, {}) == offers);
}
END_TEST

START_TEST(offers_are_remembered_by_all_they_depend_on_and_the_oldest_forgotten) {
    const Model model = *find_zoo_model("gpt2");
    std::vector<OfferPool> pools{{"a40", "A40", 8, 64, 1}};
    const auto key = [&](std::int64_t batch, const char* launcher) {
        return offer_key(fingerprint(model), batch, 1, 8, {}, launcher, pools);
    };
    const std::string first = key(64, "env");
    ck_assert(first == key(64, "env") && first != key(128, "env") && first != key(64, "megatron"));
    pools[0].profile_version = 2;
    ck_assert(first != key(64, "env"));
    pools[0] = {"a40", "A40-PCIe", 8, 64, 1};
    ck_assert(first != key(64, "env"));
    OfferCache cache(20000);
    ck_assert(cache.find(first) == nullptr);
    const OfferList kept = cache.insert(first, three_offers());
    ck_assert(cache.find(first) == kept && cache.bytes() > 3 * sizeof(Offer));
    for (int i = 0; i < 1000; ++i) cache.insert(std::to_string(i), three_offers());
    ck_assert_uint_le(cache.bytes(), 20000);
    ck_assert(cache.find(first) == nullptr);
    ck_assert(cache.find("999") != nullptr && *kept == three_offers());
    const std::size_t bytes = cache.bytes(), lists = cache.lists();
    cache.insert("999", three_offers());
    ck_assert_uint_eq(cache.bytes(), bytes);
    ck_assert_uint_eq(cache.lists(), lists);
}
END_TEST

int main() {
    Suite* suite = suite_create("planner search");
    TCase* cases = tcase_create("search");
    tcase_set_timeout(cases, 300);
    tcase_add_test(cases, the_deal_of_layers_is_the_best_of_all_compositions);
    tcase_add_test(cases, the_chosen_plan_is_the_best_of_all_plans_of_the_grid);
    tcase_add_test(cases, stages_that_differ_are_the_best_of_all_that_do);
    tcase_add_test(cases, mixed_prices_of_uniform_plans_are_the_uniform_prices);
    tcase_add_test(cases, the_pareto_set_is_beaten_by_no_plan);
    tcase_add_test(cases, more_micro_batches_lower_the_bubble_share);
    tcase_add_test(cases, tensor_parallelism_across_nodes_is_never_faster_than_inside);
    tcase_add_test(cases, sharded_optimizers_never_need_more_memory_on_more_replicas);
    tcase_add_test(cases, twice_the_rates_never_take_longer);
    tcase_add_test(cases, a_run_corrects_its_offer_and_damped_its_neighbours);
    tcase_add_test(cases, offers_are_remembered_by_all_they_depend_on_and_the_oldest_forgotten);
    suite_add_tcase(suite, cases);
    SRunner* runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
