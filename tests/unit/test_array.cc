// SPDX-License-Identifier: GPL-2.0-or-later
// Arrays of siblings: instances and their files, what makes a schedule hold, the list rule, and
// what members need of memory and links.
#include "array/bounds.h"
#include "array/list_rule.h"
#include "array/search/prefetch.h"
#include "array_cases.h"
#include "reference_data.h"
#include "tests/lab/array/baselines.h"
#include "tests/lab/array/instance_file.h"
#include "tests/lab/array/schedule_check.h"

using namespace arena;
using namespace arena::test;
using array::Convention;
using array::parse_array_instance;

namespace {

/// Two members on two stages, times of all five kinds; worked out by hand.
const char* const small = R"({"class": "japsp", "name": "own", "jobs": 2, "stages": 2,
    "device_of_stage": [0, 1], "fp": [[2, 3], [1, 2]], "bp": [[4, 6], [2, 4]],
    "recompute": [[2, 3], [1, 2]], "update": [[1, 1], [1, 1]], "switch": [[3, 2], [1, 5]],
    "comm_fwd": [[1], [2]], "comm_bwd": [[1], [1]], "unknown": {"key": 1},
    "optimal": {"physical": 99, "physical_inflight_cap": {"1": 98, "2": -1}},
    "optimal_schedule_physical": [[0, 0, "F", 0], [0, 1, "F", 3], [0, 1, "B", 6], [0, 0, "B", 16]]})";

Instance small_instance() { return must(parse_array_instance(small, "")).front().instance; }

array::Schedule listed(const Instance& instance) {
    return must(array::append(instance, {}, array::list_order(instance, {})));
}

ArrayKind mixed() {
    return {.jobs = 4, .stages = 3, .longest = 20, .switches = 9, .updates = 9, .transfers = 4};
}

/// Each start is at its earliest, so that any start that is one less does not hold.
void refuses_mutations(const Instance& instance, const std::vector<Ticks>& start,
                       ArrayMaker& maker) {
    ck_assert(array::check_schedule(instance, {}, start).ok());
    const auto blocks = static_cast<Ticks>(start.size());
    auto early = start;
    early[static_cast<std::size_t>(maker.upto(blocks - 1))] -= 1 + maker.upto(3);
    ck_assert(!array::check_schedule(instance, {}, early).ok());
    auto placed = array::placed_blocks(instance, {start, 0, {}});
    auto other = placed;
    auto& one = other[static_cast<std::size_t>(maker.upto(blocks - 1))];
    switch (maker.upto(4)) {
        case 0:
            one.job = instance.jobs;
            break;
        case 1:
            one.stage += instance.stages;
            break;
        case 2:
            one.backward = !one.backward;
            break;
        case 3:
            one.start = -1;
            break;
        default:
            other.erase(other.begin() + maker.upto(blocks - 1));
    }
    ck_assert(!array::starts_of(instance, other).ok());
}

array::ByteTable bytes(const Instance& instance, ArrayMaker& maker, Ticks most) {
    array::ByteTable table(static_cast<std::size_t>(instance.jobs));
    for (auto& row : table)
        for (int s = 0; s < instance.stages; ++s) row.push_back(maker.upto(most));
    return table;
}

array::MemoryNeeds needs_of(const Instance& instance, ArrayMaker& maker) {
    array::MemoryNeeds needs{.state = bytes(instance, maker, 100),
                             .checkpoint = bytes(instance, maker, 30),
                             .working = bytes(instance, maker, 50),
                             .fixed = {},
                             .buffers = 2 + maker.upto(2)};
    for (int d = 0; d < instance.devices; ++d) needs.fixed.push_back(maker.upto(40));
    return needs;
}

array::PrefetchModel prefetch_of(const Instance& instance, double bytes_per_tick) {
    const array::ByteTable all(
        static_cast<std::size_t>(instance.jobs),
        std::vector<array::Bytes>(static_cast<std::size_t>(instance.stages), 120));
    array::ByteTable parameters = all;
    for (auto& row : parameters)
        for (auto& amount : row) amount = 40;
    return {.forward_state = parameters,
            .backward_state = all,
            .server = std::vector<int>(static_cast<std::size_t>(instance.devices), 0),
            .bytes_per_tick = bytes_per_tick,
            .hit = 1};
}

}  // namespace

TEST(a_file_becomes_blocks_with_its_times) {
    const auto cases = must(parse_array_instance(small, "x.json"));
    ck_assert_uint_eq(cases.size(), 1);
    const Instance& one = cases.front().instance;
    ck_assert_uint_eq(one.blocks.size(), 8);
    ck_assert(one.blocks[0] == (array::Block{0, 0, 0, false, 0, 2, 2, 1, 3}));
    ck_assert(one.blocks[2] == (array::Block{0, 1, 1, true, 1, 9, 10, 1, 2}));
    ck_assert(one.blocks[7] == (array::Block{1, 0, 0, true, 2, 3, 4, 0, 1}));
    ck_assert(cases.front().known.physical == 99);
    ck_assert_int_eq(cases.front().known.in_flight.at(2), array::KnownAnswers::infeasible);
    ck_assert_uint_eq(cases.front().schedules.size(), 1);
}

TEST(a_member_whose_backward_row_is_zero_goes_forward_only) {
    const auto cases = must(parse_array_instance(
        R"({"stages": 2, "fp": [[1, 1], [1, 1]], "bp": [[0, 0], [0, 1]]})", ""));
    ck_assert_uint_eq(cases.front().instance.length(0), 2);
    ck_assert_uint_eq(cases.front().instance.length(1), 4);
}

TEST(the_other_classes_are_read_too) {
    const auto shop = must(parse_array_instance(
        R"({"class": "jobshop", "devices": 3, "jobs": 1, "routes": [[[2, 5], [0, 7]]]})", ""));
    ck_assert_int_eq(shop.front().instance.devices, 3);
    ck_assert_int_eq(shop.front().instance.blocks[0].device, 2);
    const auto large = must(parse_array_instance(R"({"class": "japsp-large", "instances": [
        {"name": "a", "stages": 1, "fp": [[1]], "bp": [[2]], "authors_ga_makespan": null, "lower_bound": 3}]})",
                                                 ""));
    ck_assert_str_eq(large.front().kind.c_str(), "japsp-large");
    ck_assert(!large.front().known.authors && large.front().known.lower_bound == 3);
}

TEST(what_is_no_instance_is_refused_with_its_place) {
    const auto refused = [](const char* text, const char* needle) {
        assert_refused(parse_array_instance(text, "f.json"), needle);
        assert_refused(parse_array_instance(text, "f.json"), "f.json");
    };
    refused("[]", "an object is needed");
    refused("{", "f.json");
    refused("{\"class\": \"x\"}", "japsp, jobshop or japsp-large");
    refused("{\"stages\": 1}", "fp");
    refused("{\"stages\": 0, \"fp\": [[1]]}", "stages");
    refused("{\"stages\": 2, \"fp\": [[1]]}", "instead of 2");
    refused("{\"stages\": 1, \"fp\": [[-1]]}", "whole numbers from 0");
    refused("{\"stages\": 1, \"fp\": [[1.5]]}", "whole numbers from 0");
    refused("{\"stages\": 1, \"fp\": [[1]], \"bp\": [[1], [1]]}", "bp has 2 rows");
    refused("{\"stages\": 1, \"jobs\": 2, \"fp\": [[1]]}", "jobs");
    refused("{\"stages\": 1, \"fp\": [[1500000000], [1500000000]]}", "coarser tick");
    refused("{\"device_of_stage\": [300], \"fp\": [[1]]}", "device_of_stage");
    refused("{\"class\": \"jobshop\", \"devices\": 1, \"routes\": [[[1, 1]]]}",
            "there is no device 1");
    refused("{\"class\": \"jobshop\", \"routes\": [[[1]]]}", "[device, time]");
    refused("{\"class\": \"jobshop\", \"routes\": [[]]}", "stages are not 1");
    refused("{\"stages\": 1, \"fp\": [[1]], \"schedule\": [[0, 0, \"X\", 1]]}", "schedule");
    refused("{\"stages\": 1, \"fp\": [[1]], \"optimal\": {\"physical_inflight_cap\": {\"0\": 1}}}",
            "caps");
}

TEST(a_device_switches_to_the_incoming_state_unless_it_holds_it) {
    const Instance instance = small_instance();
    const auto schedule = must(array::append(instance, {}, {0, 0, 0, 1, 1, 1, 0, 1}));
    // Device 0: F0 0-2, F1 3-4 after its switch of 1, B0 19-26 (its input comes at 16, no, see
    // below).
    ck_assert_int_eq(schedule.start[0], 0);
    ck_assert_int_eq(schedule.start[1], 3);
    ck_assert_int_eq(schedule.start[2], 6);   // the same state: no switch
    ck_assert_int_eq(schedule.start[4], 3);   // 2 + its switch of 1
    ck_assert_int_eq(schedule.start[5], 21);  // device 1 is free at 16, and switches in 5
    ck_assert_int_eq(schedule.start[6], 23);
    ck_assert_int_eq(schedule.start[3], 16);  // its input; the switch of 3 was made before
    ck_assert_int_eq(schedule.start[7], 30);
    ck_assert_int_eq(schedule.makespan, 34);
    ck_assert_int_eq(must(array::check_schedule(instance, {}, schedule.start)), 34);
}

TEST(literally_each_block_is_followed_by_its_own_switch) {
    const Instance literal = array::under(small_instance(), Convention::literal);
    ck_assert_int_eq(literal.blocks[0].hold, 5);
    ck_assert_int_eq(literal.blocks[0].work, 2);
    ck_assert_int_eq(literal.blocks[0].setup, 0);
}

TEST(schedules_that_are_mutated_do_not_hold) {
    ArrayMaker maker(1);
    for (int round = 0; round < 500; ++round) {
        const Instance instance = maker.instance(mixed());
        const auto schedule = must(array::append(instance, {}, maker.order(instance)));
        ck_assert_int_eq(must(array::check_schedule(instance, {}, schedule.start)),
                         schedule.makespan);
        refuses_mutations(instance, schedule.start, maker);
    }
}

TEST(blocks_without_length_hold_in_some_order_at_their_start) {
    ArrayMaker maker(2);
    for (int round = 0; round < 2000; ++round) {
        const Instance instance = maker.instance({.jobs = 3, .longest = 1, .switches = 3});
        const auto schedule = must(array::append(instance, {}, maker.order(instance)));
        ck_assert_int_eq(must(array::check_schedule(instance, {}, schedule.start)),
                         schedule.makespan);
    }
}

TEST(rules_are_checked) {
    const Instance instance = small_instance();
    const auto schedule = listed(instance);
    assert_refused(array::check_schedule(instance, {.in_flight_cap = 1}, schedule.start),
                   "in flight");
    const auto alone = must(array::append(instance, {}, array::one_by_one(instance)));
    assert_refused(array::check_schedule(instance, {.forward_first = true}, alone.start),
                   "after a backward block");
    ck_assert(array::check_schedule(instance, {.in_flight_cap = 1}, alone.start).ok());
    const auto both =
        must(array::append(instance, {.forward_first = true}, array::one_by_one(instance)));
    ck_assert(array::check_schedule(instance, {.forward_first = true}, both.start).ok());
}

TEST(the_list_rule_breaks_ties_by_direction_then_work_then_number) {
    const auto order = [](std::vector<std::vector<Ticks>> forward,
                          std::vector<std::vector<Ticks>> backward) {
        const Instance instance = must(array::make_instance("", {.device_of_stage = {0},
                                                                 .forward = std::move(forward),
                                                                 .backward = std::move(backward)}));
        return array::list_order(instance, {});
    };
    ck_assert(order({{2}, {2}}, {{4}, {4}}) == (array::Order{0, 0, 1, 1}));
    ck_assert(order({{2}, {3}}, {{4}, {4}}) == (array::Order{1, 1, 0, 0}));
}

TEST(gpipes_order_goes_back_from_the_last_member) {
    ck_assert(array::gpipe_order(small_instance()) == (array::Order{0, 0, 1, 1, 1, 1, 0, 0}));
}

TEST(what_devices_do_adds_up) {
    const Instance instance = small_instance();
    const auto parts =
        array::breakdown(instance, must(array::append(instance, {}, {0, 0, 0, 1, 1, 1, 0, 1})));
    const double all = 2 * 34;
    ck_assert_double_eq_tol(parts.forward, 8 / all, 1e-12);
    ck_assert_double_eq_tol(parts.backward, 28 / all, 1e-12);
    ck_assert_double_eq_tol(parts.switching, (1 + 3 + 1 + 5) / all, 1e-12);
    ck_assert_double_eq_tol(parts.bubble, 1 - (8 + 28 + 10) / all, 1e-12);
}

TEST(no_schedule_needs_more_memory_than_is_said) {
    ArrayMaker maker(3);
    for (int round = 0; round < 1000; ++round) {
        const Instance instance = maker.instance(mixed());
        const auto needs = needs_of(instance, maker);
        ck_assert(array::check_needs(instance, needs).ok());
        std::vector<array::Bytes> capacity;
        for (int d = 0; d < instance.devices; ++d) capacity.push_back(maker.upto(800));
        const auto cap = array::in_flight_cap(instance, needs, capacity);
        if (!cap) {
            ck_assert_int_eq(
                array::array_size(instance, needs, capacity, array::most_bytes) == instance.jobs,
                0);
            continue;
        }
        const auto schedule =
            must(array::append(instance, {.in_flight_cap = *cap}, maker.order(instance)));
        const auto peak = array::peak_bytes(instance, schedule, needs);
        const auto most = array::bytes_needed(instance, needs, *cap);
        for (std::size_t d = 0; d < peak.size(); ++d) {
            ck_assert_int_le(peak[d], most[d]);
            ck_assert_int_le(most[d], capacity[d]);
        }
    }
}

TEST(more_memory_never_means_fewer_members) {
    ArrayMaker maker(4);
    for (int round = 0; round < 1000; ++round) {
        const Instance instance = maker.instance(mixed());
        const auto needs = needs_of(instance, maker);
        int before = 0;
        for (array::Bytes capacity = 0; capacity <= 1000; capacity += 50) {
            const int members = array::array_size(
                instance, needs,
                std::vector<array::Bytes>(static_cast<std::size_t>(instance.devices), capacity),
                4000);
            ck_assert_int_ge(members, before);
            before = members;
        }
        ck_assert_int_le(before, instance.jobs);
    }
}

TEST(one_in_flight_that_does_not_fit_is_refused_with_its_device) {
    ArrayMaker maker(5);
    const Instance instance = small_instance();
    const auto needs = needs_of(instance, maker);
    assert_refused(array::in_flight_cap(instance, needs, {100000, 0}), "device 1 needs");
    assert_refused(array::in_flight_cap(instance, needs, {1}), "capacity has 1");
}

TEST(a_state_that_comes_in_time_is_a_hit) {
    const Instance instance = small_instance();
    const auto schedule = must(array::append(instance, {}, {0, 0, 0, 1, 1, 1, 0, 1}));
    for (const Ticks took :
         array::effective_switches(instance, schedule, prefetch_of(instance, 1e6)))
        ck_assert_int_le(took, 1);
}

TEST(with_one_buffer_a_switch_takes_the_whole_transfer) {
    const Instance instance = must(array::make_instance(
        "", {.device_of_stage = {0}, .forward = {{50}, {50}}, .backward = {{90}, {90}}}));
    auto model = prefetch_of(instance, 10);
    const auto schedule = must(array::append(instance, {}, {0, 0, 1, 1}));
    model.buffers = 1;
    auto took = array::effective_switches(instance, schedule, model);
    ck_assert_int_eq(took[0], 0);   // the first of its device
    ck_assert_int_eq(took[1], 24);  // 120 out, 120 in, 10 a tick
    model.buffers = 2;
    took = array::effective_switches(instance, schedule, model);
    ck_assert_int_eq(took[1], 1);  // it came in while the other ran
}

TEST(devices_of_a_server_share_its_link) {
    const Instance instance =
        must(array::make_instance("", {.device_of_stage = {0, 1},
                                       .forward = {{10, 10}, {10, 10}, {10, 10}},
                                       .backward = {{20, 20}, {20, 20}, {20, 20}}}));
    auto model = prefetch_of(instance, 4);
    const auto schedule = listed(instance);
    const auto shared = array::effective_switches(instance, schedule, model);
    model.server = {0, 1};
    const auto own = array::effective_switches(instance, schedule, model);
    std::int64_t more = 0;
    for (std::size_t i = 0; i < own.size(); ++i) more += shared[i] - own[i];
    ck_assert_int_gt(more, 0);
}

TEST(prefetch_is_solved_in_rounds) {
    ArrayMaker maker(6);
    for (int round = 0; round < 5; ++round) {
        const Instance instance = maker.instance({.jobs = 3, .stages = 2, .longest = 30});
        const auto fast =
            array::solve_prefetched(instance, {}, prefetch_of(instance, 1e6), {.seconds = 0.2});
        const auto slow =
            array::solve_prefetched(instance, {}, prefetch_of(instance, 3), {.seconds = 0.2});
        ck_assert(fast.solution.schedule && slow.solution.schedule);
        ck_assert_int_le(fast.solution.schedule->makespan, slow.solution.schedule->makespan);
        ck_assert_int_eq(
            must(array::check_schedule(slow.instance, {}, slow.solution.schedule->start)),
            slow.solution.schedule->makespan);
    }
}

TEST_NEEDING(stored_schedules_hold_and_a_thousand_mutated_ones_do_not,
             lacks_reference("arraypipe/j4s4_a.json")) {
    ArrayMaker maker(7);
    int mutated = 0;
    for (const char* name : {"j2s2_b_full", "j3s3_c", "j4s4_a", "j4s4_c", "j4s4_shared2dev"}) {
        const auto cases = must(
            parse_array_instance(read_reference(std::string("arraypipe/") + name + ".json"), name));
        for (const auto& stored : cases.front().schedules) {
            const Instance instance = array::under(cases.front().instance, stored.convention);
            const auto start = must(array::starts_of(instance, stored.blocks));
            for (int round = 0; round < 50; ++round, mutated += 2)
                refuses_mutations(instance, start, maker);
        }
    }
    ck_assert_int_eq(mutated, 1000);
}
