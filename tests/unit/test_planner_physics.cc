// SPDX-License-Identifier: GPL-2.0-or-later
// What prices must obey whatever the constants are, on seeded random plans.
#include <fmt/format.h>

#include "planner/hardware/collectives.h"
#include "planner_cases.h"
#include "request/launchers.h"
#include "suite.h"

using namespace arena;
using namespace arena::test;

namespace {

constexpr int physics_cases = 10000;
constexpr double rounding = 1 + 1e-12, noise = 1e-14;

/// Whether its replicas' rings are slowed for changing rails.
bool changes_rails(const Priced& p) {
    const Topology t = make_topology(p.pool.hardware, p.grid, p.pool.gpus_per_node);
    return cross_rail_slowdown(t, dp_group(t, p.plan.dp(), p.plan.tp())) > 1;
}

}  // namespace

TEST(more_micro_batches_lower_the_bubble_share) {
    Random random(4);
    int hidden = 0;
    for (int n = 0; n < physics_cases; ++n) {
        Priced p = any_priced(random);
        const Estimate few = p.price();
        const std::int64_t times = random.whole(2, 5);
        p.plan.num_micro_batches *= times, p.batch *= times;
        const Estimate many = p.price();
        const double before = few.bubble_s / few.iteration_s;
        const double after = many.bubble_s / many.iteration_s;
        ck_assert_double_le(after, before * rounding + noise);
        // Where one stage takes nearly all of the time, it never waits for the others.
        hidden += p.plan.pp() > 1 && before <= noise ? 1 : 0;
        if (before > noise) ck_assert_double_lt(after, before);
    }
    ck_assert_int_lt(hidden, physics_cases / 100);
}

TEST(tensor_parallelism_across_nodes_is_never_faster_than_inside) {
    Random random(5);
    int compared = 0;
    for (int n = 0; n < 16 * physics_cases && compared < physics_cases; ++n) {
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

TEST(sharded_optimizers_never_need_more_memory_on_more_replicas) {
    Random random(6);
    for (int n = 0; n < physics_cases; ++n) {
        Priced p = any_priced(random);
        p.plan.zero_stage = random.whole(1, 3);
        if (p.plan.dp() == 1) continue;  // the first replica more brings a group, which has buffers
        const double before = p.price().memory_bytes_per_gpu;
        for (std::int64_t& dp : p.plan.stage_dp) dp *= 2;
        p.batch *= 2;
        p.grid.nodes *= 2;
        ck_assert_double_le(p.price().memory_bytes_per_gpu, before * rounding);
    }
}

/// Hybrid sharding: one group of all replicas is ZeRO as it was, and smaller groups hold more.
TEST(smaller_groups_that_share_states_never_need_less_memory) {
    Random random(61);
    int compared = 0;
    for (int n = 0; n < physics_cases; ++n) {
        Priced p = any_priced(random);
        if (p.plan.zero_stage == 0) continue;
        const Estimate plain = p.price();
        double before = plain.memory_bytes_per_gpu;
        for (p.plan.hsdp = p.plan.dp(); p.plan.hsdp >= 1; p.plan.hsdp /= 2) {
            const Estimate e = p.price();
            ck_assert_double_le(before, e.memory_bytes_per_gpu * rounding);
            if (p.plan.hsdp == p.plan.dp())
                ck_assert(e.iteration_s == plain.iteration_s && before == e.memory_bytes_per_gpu);
            before = e.memory_bytes_per_gpu;
            ++compared;
        }
    }
    ck_assert_int_gt(compared, physics_cases);
}

/// ZB-H1 without interleaving, whose last stage is the slow one: its work, and the others' forwards
/// before.
TEST(a_split_schedule_of_unlike_layers_is_no_shorter_than_its_slowest_stage_and_the_ramp) {
    const auto price = [](const char* last_flops, std::vector<std::int64_t> layers,
                          Recompute recompute = Recompute::none) {
        Priced p;
        p.plan.recompute = recompute;
        p.model = must(parse_model(
            fmt::format("family: custom\nprecision: bf16\nlayers:\n"
                        "  - {{count: 3, forward_flops: 1e12, parameter_bytes: 1e8, "
                        "activation_bytes: 1e7, output_bytes: 1e5}}\n"
                        "  - {{forward_flops: {}, parameter_bytes: 1e8, activation_bytes: 1e7, "
                        "output_bytes: 1e5}}\n",
                        last_flops),
            "m"));
        p.pool.hardware = must(find_hardware(all_hardware(), "A100-SXM-80GB"));
        p.pool.gpu_type = "x", p.pool.gpus_per_node = 4, p.grid = {"x", 1, 4, 4};
        p.plan.stage_dp = p.plan.stage_tp = std::vector<std::int64_t>(layers.size(), 1);
        p.plan.stage_layers = std::move(layers);
        p.plan.num_micro_batches = p.batch = 8;
        p.plan.schedule = Schedule::zb_h1;
        return price_plan(p.model, p.batch, p.grid, p.plan, p.pool);
    };
    const Estimate light = must(price("1e12", {1, 1, 1, 1}));
    const Estimate heavy = must(price("4e12", {1, 1, 1, 1}));
    ck_assert_double_gt(heavy.compute_s, 3.5 * light.compute_s);
    ck_assert_double_ge(heavy.bubble_s, 0.9 * light.compute_s / 8);
    ck_assert(!price("1e12", {1, 1, 2}).ok());  // stages of unequally many layers
    ck_assert(!price("1e12", {1, 1, 1, 1}, Recompute::full).ok());
}

/// What it is for: weights that are gathered inside a node for each pass, where 64 nodes share a
/// slow network. Of gradients in 16 bit 4 bytes a parameter cross it in place of 6; of those in 32
/// bit 8, either way.
TEST(groups_within_nodes_are_faster_where_the_network_is_slow) {
    Priced p;
    p.model = must(find_zoo_model("llama-2-7b"));
    p.pool.hardware = must(find_hardware(all_hardware(), "A100-SXM-80GB"));
    p.pool.hardware.inter.bytes_per_s = 10e9;
    p.pool.gpu_type = "x", p.pool.gpus_per_node = 8, p.pool.framework = "Composer/FSDP";
    p.grid = {"x", 64, 8, 1};
    p.plan.stage_layers = {p.model.layers}, p.plan.stage_dp = {512}, p.plan.stage_tp = {1};
    p.plan.zero_stage = 3, p.plan.recompute = Recompute::full;
    p.batch = 512;
    p.model.precision = Precision::fp16;
    const Estimate whole = p.price();
    p.plan.hsdp = 8;
    const Estimate grouped = p.price();
    ck_assert_double_lt(grouped.iteration_s, 0.8 * whole.iteration_s);
    ck_assert_double_gt(grouped.memory_bytes_per_gpu, whole.memory_bytes_per_gpu);
    for (const auto& [groups, zero] : {std::pair(3, 3), {8, 0}, {1024, 3}}) {
        p.plan.hsdp = groups, p.plan.zero_stage = zero;
        ck_assert(!price_plan(p.model, p.batch, p.grid, p.plan, p.pool).ok());
    }
}

TEST(a_search_takes_the_groups_that_a_pin_asks_for) {
    PlanQuery query;
    query.model = must(find_zoo_model("gpt2-xl"));
    query.global_batch = 64, query.min_gpus = query.max_gpus = 16;
    query.pools = {{.gpu_type = "x",
                    .hardware = must(find_hardware(all_hardware(), "A100-SXM-80GB")),
                    .gpus_per_node = 8,
                    .max_gpus = 16}};
    query.can = capabilities_of("torchtitan");
    query.pin = must(parse_plan_pin("hsdp4"));
    int found = 0;
    for (const GridResult& r : plan_grids(query)) {
        if (!r.feasible) continue;
        ck_assert_msg(r.plan.hsdp == 4 && r.plan.zero_stage > 0 && r.plan.dp() % 4 == 0, "%s",
                      short_form(r.plan).c_str());
        ++found;
    }
    ck_assert_int_gt(found, 0);
    query.can = capabilities_of("deepspeed");  // has no words for them
    for (const GridResult& r : plan_grids(query)) ck_assert(!r.feasible);
}

TEST(twice_the_rates_never_take_longer) {
    Random random(7);
    int changing = 0;
    for (int n = 0; n < physics_cases; ++n) {
        Priced p = any_priced(random);
        const double before = p.price().iteration_s;
        changing += changes_rails(p) ? 1 : 0;
        for (auto& [precision, flops] : p.pool.hardware.flops) flops *= 2;
        p.pool.hardware.memory_bytes_per_s *= 2;
        p.pool.hardware.intra.bytes_per_s *= 2;
        p.pool.hardware.inter.bytes_per_s *= 2;
        ck_assert_double_le(p.price().iteration_s, before * rounding);
    }
    ck_assert_int_gt(changing, physics_cases / 100);
}

/// A cost that some framework, device or network has and others have not, and a higher value of it.
struct Cost {
    double FrameworkConstants::*framework;
    double DeviceConstants::*device;
    double more;
};
constexpr Cost costs[] = {{&FrameworkConstants::weight_tensors, nullptr, 5},
                          {&FrameworkConstants::weight_rank_s, nullptr, 1e-5},
                          {&FrameworkConstants::weight_share, nullptr, 0.3},
                          {&FrameworkConstants::regather_weights, nullptr, 2},
                          {&FrameworkConstants::ring_imbalance, nullptr, 1},
                          {&FrameworkConstants::selective_others, nullptr, 1},
                          {&FrameworkConstants::micro_batch_s, nullptr, 0.03},
                          {nullptr, &DeviceConstants::node_spread, 0.05},
                          {nullptr, &DeviceConstants::clock_share, 0.5}};

TEST(a_cost_more_never_makes_a_plan_faster) {
    Random random(8);
    int slower = 0;
    for (int n = 0; n < physics_cases; ++n) {
        Priced p = any_priced(random);
        const Cost& cost = costs[static_cast<std::size_t>(random.whole(0, std::ssize(costs) - 1))];
        p.pool.constants = builtin_calibration().constants(p.pool.hardware.name, p.pool.framework);
        const double before = p.price().iteration_s;
        if (cost.framework != nullptr) p.pool.constants->framework.*cost.framework = cost.more;
        if (cost.device != nullptr) p.pool.constants->device.*cost.device = cost.more;
        const double after = p.price().iteration_s;
        // Where another stage is the longest, a slower one hides more of its own exchange.
        const double hides = cost.device == &DeviceConstants::clock_share ? 1 + 1e-8 : rounding;
        ck_assert_double_ge(after * hides, before);
        slower += after > before ? 1 : 0;
    }
    ck_assert_int_gt(slower, physics_cases / 10);
}

TEST(more_nodes_at_the_same_work_for_each_gpu_are_never_faster) {
    Random random(9);
    for (int n = 0; n < physics_cases; ++n) {
        Priced p = any_priced(random);
        p.pool.constants = builtin_calibration().constants(p.pool.hardware.name, p.pool.framework);
        p.pool.constants->device.node_spread = random.of({0.0, 0.015});
        p.plan.zero_stage = p.plan.dp() > 1 && p.plan.pp() == 1 ? 3 : 0;
        if (p.grid.gpus_per_node < 8) continue;
        const Estimate few = p.price();
        for (std::int64_t& dp : p.plan.stage_dp) dp *= 2;
        p.batch *= 2, p.grid.nodes *= 2;
        const Estimate many = p.price();  // which share the step, where it is sharded
        ck_assert_double_ge((many.iteration_s - many.optimizer_s) * rounding,
                            few.iteration_s - few.optimizer_s);
    }
}

SUITE({.timeout_s = 300});
