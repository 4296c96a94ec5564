// SPDX-License-Identifier: GPL-2.0-or-later
// What siblings could do with their GPUs, as the planner prices it: stages of a shared pipeline,
// its memory, and when it is bound.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "planner/arrays/array_offers.h"
#include "planner/arrays/array_stages.h"
#include "planner_cases.h"

using namespace arena;
using namespace arena::test;

namespace {

GpuPool pool_of(const char* name, std::int64_t gpus) {
    GpuPool pool;
    pool.gpu_type = name;
    pool.hardware = hardware(name);
    pool.gpus_per_node = 8;
    pool.max_gpus = gpus;
    return pool;
}

/// 6.7 billion parameters, 121 GB of state, untied.
ArrayQuery too_large_for_one(std::int64_t gpus, std::int64_t members) {
    ArrayQuery query;
    query.model = zoo("llama-2-7b");
    query.global_batch = 2;
    query.pool = pool_of("A100-SXM-80GB", gpus);
    query.can = all_capabilities();
    query.members = members;
    query.solve.seconds = 0.2;
    return query;
}

const ArrayOffer& of(const ArrayOffers& offers, ArrayWay way) {
    return offers.ways[static_cast<std::size_t>(way)];
}

PlanQuery plan_query(const ArrayQuery& query) {
    PlanQuery plan;
    plan.model = query.model;
    plan.global_batch = query.global_batch;
    plan.max_gpus = query.pool.max_gpus;
    plan.pools = {query.pool};
    plan.can = query.can;
    return plan;
}

void says(const ArrayOffers& offers, const char* words) {
    ck_assert_msg(offers.why.find(words) != std::string::npos, "'%s' lacks '%s'",
                  offers.why.c_str(), words);
}

}  // namespace

TEST(what_fits_one_device_is_not_bound) {
    ArrayQuery query = too_large_for_one(4, 8);
    query.model = zoo("gpt2");
    const ArrayOffers offers = array_offers(query);
    const ArrayOffer& alone = of(offers, ArrayWay::alone);
    ck_assert(alone.possible && !offers.binds);
    ck_assert_int_eq(alone.groups, 4);
    says(offers, "a member fits one device");
    query.members = 3;
    ck_assert_int_eq(of(array_offers(query), ArrayWay::alone).groups, 3);
}

TEST(tied_tables_are_refused_with_a_sentence) {
    ArrayQuery query = too_large_for_one(4, 8);
    query.model.tied_embedding = true;
    const ArrayOffers offers = array_offers(query);
    ck_assert(!offers.binds && !of(offers, ArrayWay::pipeline).possible);
    says(offers, "ties its output head");
}

TEST(stages_hold_all_layers_and_cost_what_a_plan_costs) {
    const ArrayQuery query = too_large_for_one(4, 1);
    const auto stages = must(array_stages(plan_query(query), query.pool, 4));
    std::int64_t layers = 0;
    double state_bytes = 0, one_s = 0;
    Plan plan;
    for (const ArrayStage& stage : stages) {
        layers += stage.layers;
        state_bytes += stage.state_bytes;
        one_s += stage.forward_s + stage.backward_s + stage.recompute_s;
        plan.stage_layers.push_back(stage.layers);
        ck_assert(stage.working_bytes > 0 && stage.weight_bytes < stage.state_bytes);
    }
    ck_assert_int_eq(layers, query.model.layers);
    const double wanted = 18 * parameter_count(query.model);
    ck_assert_msg(std::abs(state_bytes / wanted - 1) < 0.01, "%g %g", state_bytes, wanted);
    plan.stage_dp.assign(4, 1);
    plan.stage_tp.assign(4, 1);
    plan.micro_batch = query.global_batch;
    plan.recompute = Recompute::full;
    const Estimate estimate = must(
        price_plan(query.model, query.global_batch, {"A100-SXM-80GB", 1, 4, 4}, plan, query.pool));
    const auto problem = must(array_problem(stages, 1, 2, 0));
    const double chain_s =
        must(array::append(problem.instance, {}, array::one_by_one(problem.instance))).makespan *
        problem.tick_s;
    ck_assert_msg(chain_s >= one_s && std::abs(chain_s / estimate.iteration_s - 1) < 0.05,
                  "%g s of an array of one, %g s of the plan", chain_s, estimate.iteration_s);
}

/// The first layers of an image model take most of its time. An eighth of it and one layer more is
/// what a stage takes at most where the slowest stage counts, and not the sum of all.
TEST(stages_of_unequal_layers_are_cut_for_many_members) {
    for (const char* name : {"vgg-19", "resnet-152"}) {
        ArrayQuery query = too_large_for_one(8, 64);
        query.model = zoo(name);
        query.global_batch = 128;
        const auto seconds = [&](std::int64_t stages) {
            std::vector<double> list;
            for (const ArrayStage& s : must(array_stages(plan_query(query), query.pool, stages)))
                list.push_back(s.forward_s + s.recompute_s + s.backward_s);
            return list;
        };
        const std::vector<double> layers = seconds(query.model.layers), stages = seconds(8);
        const double all_s = std::accumulate(layers.begin(), layers.end(), 0.0);
        const double slowest_s = *std::max_element(layers.begin(), layers.end());
        const double stage_s = *std::max_element(stages.begin(), stages.end());
        ck_assert_msg(stage_s <= all_s / 8 + slowest_s, "%s: %g %g %g", name, stage_s, slowest_s,
                      all_s / 8);
    }
}

TEST(a_pipeline_is_bound_by_its_gain_alone) {
    for (const std::int64_t members : {2, 8, 24}) {
        const ArrayOffers offers = array_offers(too_large_for_one(8, members));
        const ArrayOffer& pipeline = of(offers, ArrayWay::pipeline);
        ck_assert(!of(offers, ArrayWay::alone).possible);
        ck_assert_msg(pipeline.possible, "%s", pipeline.reason.c_str());
        ck_assert(pipeline.groups * pipeline.gpus <= 8);
        ck_assert(pipeline.bubble >= 0 && pipeline.bubble < 1);
        double best = 0;
        for (const ArrayWay way : {ArrayWay::side_by_side, ArrayWay::one_by_one})
            best = std::max(best, of(offers, way).rate_per_s());
        ck_assert_int_eq(offers.binds, pipeline.rate_per_s() >= least_gain * best);
        says(offers, offers.binds ? "bound: " : "not bound: ");
    }
}

TEST(more_memory_never_means_fewer_members) {
    std::int64_t before = 0;
    for (const double gigabytes : {20, 40, 60, 80, 120, 160}) {
        ArrayQuery query = too_large_for_one(4, 32);
        query.pool.hardware.memory_bytes = static_cast<std::int64_t>(gigabytes * 1e9);
        const auto stages = array_stages(plan_query(query), query.pool, 4);
        if (!stages) {
            ck_assert_int_eq(before, 0);
            ck_assert(stages.error().code == ErrorCode::no);
            continue;
        }
        const auto problem = must(array_problem(*stages, 32, 2, 0));
        const std::int64_t now = array::array_size(
            problem.instance, problem.needs,
            std::vector<array::Bytes>(4, query.pool.hardware.memory_bytes), array::most_bytes);
        ck_assert_msg(now >= before, "%g GB: %ld", gigabytes, now);
        before = now;
    }
    ck_assert_int_eq(before, 32);
}

TEST(states_are_in_the_memory_of_the_nodes_too) {
    ArrayQuery query = too_large_for_one(8, 24);
    const auto pipeline = [&](double gigabytes) {
        query.host_bytes_per_gpu = gigabytes * 1e9;
        return of(array_offers(query), ArrayWay::pipeline);
    };
    const ArrayOffer all = pipeline(0);
    ck_assert(all.possible && all.at_a_time >= 2);
    ck_assert_int_eq(all.gpus, 4);
    ck_assert_int_eq(pipeline(1000).gpus, 4);
    // 94 GB each: the shares of four GPUs hold one, those of eight two.
    const ArrayOffer two = pipeline(25);
    ck_assert_int_eq(two.gpus, 8);
    ck_assert_int_eq(two.at_a_time, 2);
    const ArrayOffer none = pipeline(20);
    ck_assert(!none.possible);
    ck_assert_msg(none.reason.find("the nodes' memory holds the states of fewer than two") !=
                      std::string::npos,
                  "%s", none.reason.c_str());
}

TEST(every_stage_keeps_its_input) {
    ArrayQuery query = too_large_for_one(4, 8);
    const auto stages = must(array_stages(plan_query(query), query.pool, 4));
    // A batch of two, of 4096 tokens, in bf16.
    for (const ArrayStage& stage : stages)
        ck_assert_double_eq(stage.checkpoint_bytes, 2.0 * 4096 * 4096 * 2);
}

TEST(long_iterations_fit_the_ticks) {
    ArrayStage slow;
    slow.layers = 1;
    slow.forward_s = slow.backward_s = 1000;
    const auto problem = must(array_problem({slow, slow}, 1024, 2, 0));
    ck_assert(problem.tick_s > 1e-6);
    ck_assert_int_eq(problem.instance.jobs, 1024);
}
