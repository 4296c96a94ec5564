// SPDX-License-Identifier: GPL-2.0-or-later
// Pipelines as people schedule them, against what their papers prove of equal stages; and what an
// array gains over each in the planner's model.
#include <cmath>

#include "planner_cases.h"
#include "tests/lab/array/array_compare.h"

using namespace arena;
using namespace arena::test;

namespace {

/// Equal devices: forward 1, backward 2.
PipelineRun equal_run(PipelineKind kind, std::size_t stages, std::int64_t micro_batches) {
    PipelineRun run{.kind = kind, .devices = {}, .micro_batches = micro_batches};
    run.devices.assign(stages, {.forward_s = 1, .backward_s = 2});
    return run;
}

double seconds(PipelineKind kind, std::size_t stages, std::int64_t micro_batches) {
    return play(equal_run(kind, stages, micro_batches)).seconds;
}

CompareQuery query_of(const char* model, std::int64_t batch) {
    CompareQuery query{.model = zoo(model), .batch = batch, .pool = {}, .can = all_capabilities()};
    query.pool.gpu_type = "A100-SXM-80GB";
    query.pool.hardware = hardware("A100-SXM-80GB");
    return query;
}

void check_shares(const PipelineTime& time) {
    ck_assert_double_eq_tol(time.forward + time.backward + time.overhead + time.bubble, 1, 1e-9);
    ck_assert_double_ge(time.bubble, -1e-9);
    ck_assert_double_ge(time.overhead, 0);
}

}  // namespace

TEST(gpipe_and_1f1b_of_equal_stages_take_what_the_formula_says) {
    for (const std::size_t stages : {1, 2, 4, 8})
        for (const std::int64_t m : {1, 2, 4, 8, 32}) {
            const double formula = (static_cast<double>(m) + static_cast<double>(stages) - 1) * 3;
            ck_assert_double_eq_tol(seconds(PipelineKind::gpipe, stages, m), formula, 1e-9);
            ck_assert_double_eq_tol(seconds(PipelineKind::one_f_one_b, stages, m), formula, 1e-9);
        }
}

TEST(zero_bubble_schedules_have_no_larger_bubble_than_their_paper_proves) {
    // Qi et al. 2024, table 2: (p - 1)(T_F + T_B - T_W) for ZB-H1, with backward split in halves.
    for (const std::size_t stages : {2, 4, 8}) {
        const auto p = static_cast<double>(stages);
        const double bubble = seconds(PipelineKind::zb1p, stages, 32) - 32 * 3;
        ck_assert_double_le(bubble, (p - 1) * (1 + 1 - 1) + 1e-9);
        ck_assert_double_le(seconds(PipelineKind::zbv, stages, 32),
                            seconds(PipelineKind::one_f_one_b, stages, 32));
        ck_assert_double_lt(seconds(PipelineKind::hanayo, stages, 8),
                            seconds(PipelineKind::one_f_one_b, stages, 8));
    }
}

TEST(no_pipeline_takes_less_than_its_busiest_device) {
    for (const PipelineKind kind : all_pipeline_kinds)
        for (const std::int64_t members : {1, 3}) {
            PipelineRun run = equal_run(kind, 4, 4);
            run.members = members;
            run.devices[2] = {.forward_s = 2,
                              .backward_s = 3,
                              .recompute_s = 1,
                              .update_s = 0.5,
                              .transfer_s = 0.1};
            const PipelineTime time = play(run);
            check_shares(time);
            ck_assert_double_ge(time.seconds, static_cast<double>(members) * (4 * 6 + 0.5) - 1e-9);
        }
}

TEST(members_that_share_take_no_longer_than_one_after_another) {
    for (const PipelineKind kind : all_pipeline_kinds)
        for (const std::int64_t micro_batches : {1, 4}) {
            PipelineRun run = equal_run(kind, 4, micro_batches);
            for (DeviceLoad& load : run.devices) load.update_s = 0.25, load.transfer_s = 0.05;
            const double alone = play(run).seconds;
            run.members = 6;
            ck_assert_double_lt(play(run).seconds, 6 * alone);
        }
}

TEST(states_that_come_from_the_host_cost_what_computing_does_not_hide) {
    PipelineRun run = equal_run(PipelineKind::one_f_one_b, 4, 1);
    run.members = 8;
    const double resident = play(run).seconds;
    for (DeviceLoad& load : run.devices) load.fetch_weights_s = 0.1, load.fetch_state_s = 0.5;
    run.buffers = 8;
    ck_assert_double_eq(play(run).seconds, resident);
    run.buffers = 2;
    const PipelineTime ahead = play(run);
    run.buffers = 1;
    const PipelineTime late = play(run);
    check_shares(ahead);
    check_shares(late);
    ck_assert_double_lt(ahead.seconds, late.seconds);
    ck_assert_double_ge(ahead.seconds, resident);
    ck_assert_double_gt(late.overhead, ahead.overhead);
}

TEST(in_the_papers_setting_every_way_is_faster_with_an_array) {
    for (const auto& [model, batch] :
         {std::pair{"vgg-19", 128}, {"resnet-152", 256}, {"bert-large", 16}, {"gpt2-xl", 32}}) {
        const auto all = compare_array(query_of(model, batch));
        ck_assert(all);
        ck_assert_uint_eq(all->plain.size(), all_pipeline_kinds.size());
        for (std::size_t i = 0; i < all->plain.size(); ++i) {
            const CompareRow &plain = all->plain[i], &array = all->with_array[i];
            ck_assert(plain.possible && array.possible);
            check_shares(plain.time);
            check_shares(array.time);
            ck_assert_msg(array.time.seconds <= plain.time.seconds * (1 + 1e-9),
                          "%s of %s: %.4f, %.4f with it", plain.way.c_str(), model,
                          plain.time.seconds, array.time.seconds);
        }
        ck_assert(all->array.possible);
        check_shares(all->array.time);
        ck_assert_double_le(all->array.time.seconds, all->model_parallel.time.seconds);
        if (all->without_prefetch.possible)
            ck_assert_double_ge(all->without_prefetch.time.seconds, all->array.time.seconds);
    }
}

TEST(less_memory_takes_fewer_members_together) {
    CompareQuery query = query_of("gpt2-xl", 8);
    const auto large = compare_array(query);
    query.pool.hardware.memory_bytes /= 2;
    const auto small = compare_array(query);
    ck_assert(large && small);
    ck_assert(!small->without_memory_manager.possible ||
              small->without_memory_manager.together <= large->without_memory_manager.together);
    ck_assert_double_le(large->array.time.seconds, small->array.time.seconds);
}

TEST(what_cannot_be_cut_is_refused_in_a_sentence) {
    CompareQuery query = query_of("bert-large", 8);
    query.stages = 32;
    const auto none = compare_array(query);
    ck_assert(!none);
    ck_assert_str_eq(none.error().text.c_str(), "24 layers are not 32 stages");
}
