// SPDX-License-Identifier: GPL-2.0-or-later
// The searches for schedules of arrays against every order of small instances, and the laws that
// optima obey.
#include "array/bounds.h"
#include "array/list_rule.h"
#include "array/search/exact.h"
#include "array/search/genetic.h"
#include "array/search/solve.h"
#include "array_cases.h"
#include "tests/lab/array/instance_file.h"

using namespace arena;
using namespace arena::test;
using array::Convention;
using array::Prefer;

namespace {

const ArrayKind kinds[] = {
    {},
    {.stages = 3},
    {.jobs = 3},
    {.jobs = 3, .longest = 2, .twins = true},
    {.stages = 3, .switches = 9, .transfers = 3},
    {.jobs = 3, .switches = 15, .updates = 9, .recomputes = 4},
    {.jobs = 3, .switches = 6, .twins = true},
    {.jobs = 3, .switches = 30, .updates = 20, .transfers = 5, .twins = true},
    {.stages = 3, .devices = 2, .switches = 9, .updates = 5},
    {.jobs = 3, .devices = 1, .longest = 5, .switches = 5},
    {.jobs = 3, .switches = 5, .forward_only = true},
    {.stages = 3, .devices = 2, .switches = 5, .transfers = 9, .forward_only = true},
};

std::vector<Rules> all_rules(const Instance& instance) {
    std::vector<Rules> rules{{}, {.forward_first = true}};
    for (int cap = 1; cap <= instance.jobs; ++cap) {
        rules.push_back({.in_flight_cap = cap});
        rules.push_back({.forward_first = true, .in_flight_cap = cap});
    }
    return rules;
}

Ticks optimum(const Instance& instance, const Rules& rules = {}) {
    const auto answer = array::solve_exact(instance, rules, std::nullopt);
    ck_assert(answer.proven && answer.schedule);
    return answer.schedule->makespan;
}

void assert_same(const Instance& instance, const Rules& rules, std::size_t width) {
    const auto want = BruteForce(instance, rules).best();
    const auto answer = array::solve_exact(instance, rules, std::nullopt, {.first_width = width});
    ck_assert(answer.proven);
    ck_assert_int_eq(answer.schedule.has_value(), want.has_value());
    if (!want) return;
    ck_assert_int_eq(answer.schedule->makespan, *want);
    ck_assert_int_eq(answer.bound, *want);
    ck_assert_int_eq(must(array::check_schedule(instance, rules, answer.schedule->start)), *want);
    ck_assert_int_le(array::lower_bound(instance), *want);
}

/// 3 members, 2 stages: the rule "only blocks whose input is there, and that could start before the
/// first of them ends" loses the best here, for a switch must be waited for.
Instance must_wait() {
    return must(array::make_instance("", {.device_of_stage = {0, 1},
                                          .forward = {{2, 3}, {1, 8}, {2, 7}},
                                          .backward = {{5, 2}, {6, 8}, {8, 3}},
                                          .setup = {{9, 0}, {0, 7}, {6, 9}}}));
}

}  // namespace

TEST(exact_search_finds_what_every_order_finds) {
    ArrayMaker maker(1);
    for (const ArrayKind& kind : kinds)
        for (int round = 0; round < 60; ++round) {
            const Instance instance = maker.instance(kind);
            assert_same(instance, {}, 256);
            assert_same(array::under(instance, Convention::literal), {}, 256);
        }
}

TEST(it_does_under_every_rule) {
    ArrayMaker maker(2);
    for (const ArrayKind& kind : kinds)
        for (int round = 0; round < 12; ++round) {
            const Instance instance = maker.instance(kind);
            for (const Rules& rules : all_rules(instance)) assert_same(instance, rules, 256);
        }
}

TEST(it_does_with_layers_that_are_too_narrow_at_first) {
    ArrayMaker maker(3);
    for (const ArrayKind& kind : kinds)
        for (int round = 0; round < 20; ++round) assert_same(maker.instance(kind), {}, 1);
}

TEST(it_does_for_job_shops) {
    ArrayMaker maker(4);
    for (int round = 0; round < 100; ++round) assert_same(maker.job_shop(3, 3), {}, 4);
}

TEST(it_waits_for_a_block_where_that_is_best) {
    const Instance instance = must_wait();
    assert_same(instance, {}, 256);
}

TEST(a_rule_that_nothing_obeys_is_proved_to_be_one) {
    const Instance one_way =
        must(array::make_instance("", {.device_of_stage = {0}, .forward = {{1}, {1}}}));
    const auto answer = array::solve(one_way, {.in_flight_cap = 1});
    ck_assert(answer.proven && !answer.schedule);
    ck_assert_int_eq(answer.bound, 0);
}

TEST(identical_members_without_overhead_fill_the_pipeline) {
    for (std::size_t jobs = 1; jobs <= 5; ++jobs)
        for (std::size_t stages = 1; stages <= 4; ++stages) {
            const Instance instance = must(
                array::make_instance("", {.device_of_stage =
                                              [&] {
                                                  std::vector<int> own(stages);
                                                  for (std::size_t s = 0; s < stages; ++s)
                                                      own[s] = static_cast<int>(s);
                                                  return own;
                                              }(),
                                          .forward = {jobs, std::vector<Ticks>(stages, 10)},
                                          .backward = {jobs, std::vector<Ticks>(stages, 20)}}));
            ck_assert_int_eq(optimum(instance), static_cast<Ticks>(jobs + stages - 1) * 30);
        }
}

TEST(times_that_are_scaled_scale_the_optimum) {
    ArrayMaker maker(5);
    for (int round = 0; round < 40; ++round) {
        auto times = maker.times(kinds[7]);
        const Ticks before = optimum(must(array::make_instance("", times)));
        for (auto* table : {&times.forward, &times.backward, &times.recompute, &times.update,
                            &times.setup, &times.transfer_forward, &times.transfer_backward})
            for (auto& row : *table)
                for (Ticks& time : row) time *= 7;
        ck_assert_int_eq(optimum(must(array::make_instance("", times))), 7 * before);
    }
}

TEST(more_work_is_never_done_sooner) {
    ArrayMaker maker(6);
    for (int round = 0; round < 60; ++round) {
        const auto times =
            maker.times({.jobs = 3, .stages = 3, .switches = 9, .updates = 9, .transfers = 3});
        const Ticks before = optimum(must(array::make_instance("", times)));
        for (const auto table :
             {&array::StageTimes::forward, &array::StageTimes::backward, &array::StageTimes::update,
              &array::StageTimes::setup, &array::StageTimes::transfer_forward}) {
            auto longer = times;
            auto& row = (longer.*table)[static_cast<std::size_t>(maker.upto(2))];
            row[static_cast<std::size_t>(maker.upto(static_cast<Ticks>(row.size()) - 1))] +=
                1 + maker.upto(20);
            ck_assert_int_ge(optimum(must(array::make_instance("", longer))), before);
        }
    }
}

TEST(one_member_more_is_never_done_sooner) {
    ArrayMaker maker(7);
    for (int round = 0; round < 60; ++round) {
        auto times =
            maker.times({.jobs = 4, .stages = 2, .switches = 9, .updates = 9, .transfers = 3});
        const Ticks all = optimum(must(array::make_instance("", times)));
        for (auto* table : {&times.forward, &times.backward, &times.recompute, &times.update,
                            &times.setup, &times.transfer_forward, &times.transfer_backward})
            table->pop_back();
        ck_assert_int_le(optimum(must(array::make_instance("", times))), all);
    }
}

TEST(the_genetic_search_does_the_same_with_the_same_seed) {
    ArrayMaker maker(8);
    for (int round = 0; round < 3; ++round) {
        const Instance instance =
            maker.instance({.jobs = 6, .stages = 4, .longest = 50, .switches = 9});
        const auto once = array::solve_genetic(instance, {}, {.seed = 3});
        const auto again = array::solve_genetic(instance, {}, {.seed = 3});
        ck_assert(once && again && *once == *again);
        const auto rule = must(array::append(instance, {}, array::list_order(instance, {})));
        ck_assert_int_le(once->makespan, rule.makespan);
        ck_assert_int_ge(once->makespan, array::lower_bound(instance));
        ck_assert_int_eq(must(array::check_schedule(instance, {}, once->start)), once->makespan);
    }
}

TEST(the_genetic_search_obeys_rules) {
    ArrayMaker maker(9);
    for (int round = 0; round < 10; ++round) {
        const Instance instance =
            maker.instance({.jobs = 4, .stages = 3, .longest = 50, .switches = 9});
        for (const Rules& rules : all_rules(instance)) {
            const auto found = array::solve_genetic(instance, rules, {.seconds = 0.05});
            const auto exact = array::solve_exact(instance, rules, std::nullopt);
            ck_assert(exact.proven);
            ck_assert_int_eq(found.has_value(), exact.schedule.has_value());
            if (!found) continue;
            ck_assert_int_eq(must(array::check_schedule(instance, rules, found->start)),
                             found->makespan);
            ck_assert_int_ge(found->makespan, exact.schedule->makespan);
        }
    }
}

TEST(a_search_that_is_out_of_time_says_how_far_it_is) {
    ArrayMaker maker(10);
    const Instance instance =
        maker.instance({.jobs = 12, .stages = 5, .longest = 100, .switches = 30});
    const auto solution =
        array::solve(instance, {}, {.solver = array::Solver::exact, .seconds = 0.3});
    ck_assert(solution.schedule.has_value());
    ck_assert_int_le(solution.bound, solution.schedule->makespan);
    ck_assert_int_ge(solution.bound, array::lower_bound(instance));
    ck_assert(solution.proven == (solution.bound == solution.schedule->makespan));
    ck_assert(solution.proven || solution.gap() > 0);
}
