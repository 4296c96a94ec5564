// SPDX-License-Identifier: GPL-2.0-or-later
// What a run is told between two steps changes who computes what, never what is learnt: losses
// under split, swap and park are those of a run that was told nothing. Where sums keep their order
// (swap, park) they are equal to the bit; dealt anew, micro-batches are added up in another order.
#include <cstdint>

#include "base/json.h"
#include "train/comm/messages.h"
#include "train/run/control.h"
#include "train_cases.h"

using namespace arena;
using namespace arena::train;
using namespace arena::train::test;
using arena::test::assert_refused;
using arena::test::assert_text;

namespace {

constexpr Index steps = 12;
constexpr double rounding = 2e-5;  ///< of sums in another order, over so many steps

/// A directory with something to learn and a script.
struct Case {
    Directory directory;
    TrainOptions options;
    Case(const TrainPlan& plan, const std::string& script)
        : options(options_of(plan, directory / "text", steps)) {
        write_file(options.data, text(2000));
        options.log = directory / "log";
        tell(script);
    }
    void tell(const std::string& script) {
        options.control = script.empty() ? "" : directory / "script";
        write_file(directory / "script", script);
    }
    [[nodiscard]] std::vector<double> losses() const { return losses_of(options); }
    /// The events of the log in their order, as JSON.
    [[nodiscard]] std::vector<Json> events() const {
        std::vector<Json> all;
        std::ifstream log(options.log);
        for (std::string line; std::getline(log, line);)
            if (auto json = parse_json(line).value(); json.contains("event")) all.push_back(json);
        return all;
    }
};

std::vector<double> told_nothing(const TrainPlan& plan) { return Case(plan, "").losses(); }

void assert_equal(const std::vector<double>& got, const std::vector<double>& wanted,
                  const std::string& who) {
    assert_same_losses(got, wanted, 0, who);
    ck_assert_uint_eq(got.size(), wanted.size());
}

// ---- words ------------------------------------------------------------------------------------

TEST(words_are_read_as_they_are_written) {
    for (const char* text :
         {"split 3,1", "split 8", "swap 0 2", "park 5s", "park 0.25s", "park 60s"})
        assert_text(to_text(parse_word(text).value()), text);
    ck_assert(*parse_word(" split   2,6 ") == Word(Split{{2, 6}}));
    for (const char* text :
         {"",           "go",         "split",     "split ",    "split 0,4",
          "split 3,,1", "split 3,-1", "split a",   "split 1 2", "swap 0",
          "swap 0 1 2", "swap -1 0",  "park",      "park 5",    "park s",
          "park -1s",   "park 61s",   "park nans", "park infs", "split 99999999999999999999"})
        assert_refused(parse_word(text), "none of: split");
}

TEST(a_word_that_a_plan_cannot_obey_is_refused) {
    const TrainPlan plan = make_plan(2, 2, 1);  // 8 samples: 4 micro-batches of each replica
    for (const char* good : {"split 7,1", "split 4,4", "swap 3 0", "park 1s"})
        ck_assert(check_word(*parse_word(good), plan).ok());
    for (const char* bad : {"split 8", "split 4,3", "split 4,5", "split 2,3,3"})
        assert_refused(check_word(*parse_word(bad), plan), "deals 8 micro-batches to 2 replicas");
    for (const char* bad : {"swap 0 4", "swap 1 1", "swap 4 0"})
        assert_refused(check_word(*parse_word(bad), plan), "no two ranks of 0 to 3");
}

TEST(a_script_that_is_none_ends_the_run_before_its_first_step) {
    Case c(make_plan(1, 2, 1), "1 split 5,3\n\n# so\n2 split 5,4\n");
    const auto refused = [&](const std::string& why) {
        const auto outcomes = train_all(c.options);
        assert_refused(outcomes.front().status, why);
        ck_assert(!outcomes.back().status && outcomes.front().losses.empty());
        ck_assert_int_eq(exit_code(outcomes.back(), c.options),
                         exit_code(outcomes.front(), c.options));
    };
    refused("script:4: split 5,4: this run deals 8 micro-batches to 2 replicas");
    c.tell("split 4,4\n");
    refused("script:1: \"split 4,4\" does not begin with a step");
    c.tell("0 split 4,4\n");
    refused("does not begin with a step");
    c.tell("7\n");
    refused("does not begin with a step");
    c.options.control = c.directory / "none";
    refused("none: cannot open");
}

// ---- split ------------------------------------------------------------------------------------

TEST(a_step_has_the_same_samples_however_they_are_dealt) {
    TrainPlan plan = make_plan(1, 4, 1);
    for (const std::vector<Index>& counts :
         {std::vector<Index>{2, 2, 2, 2}, {5, 1, 1, 1}, {1, 2, 4, 1}}) {
        plan.micro_batches = counts;
        plan.micro_batch = 3;
        ck_assert_int_eq(plan.global_batch(), 24);
        Index next = 0;
        for (Index replica = 0; replica < 4; ++replica) {
            const Range mine = plan.samples(replica);
            ck_assert_int_eq(mine.begin, next);
            ck_assert_int_eq(mine.size(), 3 * counts[at(replica)]);
            next = mine.end;
        }
        ck_assert_int_eq(next, 24);
    }
}

TEST(losses_do_not_depend_on_how_micro_batches_are_dealt) {
    const std::string two = "1 split 5,3\n3 split 1,7\n6 split 7,1\n10 split 4,4\n";
    for (const TrainPlan& plan :
         {make_plan(1, 2, 1), make_plan(2, 2, 1), make_plan(2, 2, 1, {1, 3}, 1, Recompute::full, 1),
          make_plan(1, 2, 2, {}, 1, Recompute::selective), make_plan(4, 2, 1)}) {
        const Case c(plan, two);
        assert_same_losses(c.losses(), told_nothing(plan), rounding, describe(plan));
        ck_assert_uint_eq(c.events().size(), 5U);  // and the start
        ck_assert(c.events()[2].at("micro_batches") == Json({1, 7}));
        ck_assert(c.events()[2].at("step") == 3);
    }
    const Case four(make_plan(1, 4, 1), "2 split 1,2,4,1\n7 split 5,1,1,1\n");
    assert_same_losses(four.losses(), told_nothing(make_plan(1, 4, 1)), rounding, "four replicas");
}

// ---- swap -------------------------------------------------------------------------------------

std::vector<TrainPlan> plans_of_four() {
    return {make_plan(4, 1, 1),
            make_plan(2, 2, 1),
            make_plan(2, 2, 1, {1, 3}, 1, Recompute::full, 1),
            make_plan(1, 4, 1, {}, 1, Recompute::none, 1),
            make_plan(2, 1, 2),
            make_plan(1, 2, 2, {}, 2, Recompute::none, 1)};
}

TEST(any_two_ranks_change_roles_and_no_loss_changes) {
    for (const TrainPlan& plan : plans_of_four()) {
        const auto wanted = told_nothing(plan);
        for (const char* pair : {"0 1", "0 2", "3 0", "1 2", "3 1", "2 3"}) {
            const Case c(plan, std::string("3 swap ") + pair + "\n");
            assert_equal(c.losses(), wanted, describe(plan) + " swap " + pair);
            ck_assert(c.events().back().at("event") == "swapped");
        }
    }
}

TEST(roles_go_round_and_come_back) {
    for (const TrainPlan& plan : plans_of_four()) {
        const Case c(plan, "1 swap 0 1\n2 swap 1 2\n2 swap 2 3\n5 swap 0 3\n9 swap 3 0\n");
        assert_equal(c.losses(), told_nothing(plan), describe(plan));
        ck_assert_uint_eq(c.events().size(), 6U);
    }
    Case untied(make_plan(2, 2, 1), "4 swap 0 3\n8 swap 1 2\n");
    untied.options.shape.tied = false;
    const auto got = untied.losses();
    untied.tell("");
    assert_equal(got, untied.losses(), "untied");
}

TEST(a_checkpoint_of_swapped_ranks_is_that_of_any_others) {
    const auto file_of = [](const std::string& script) {
        Case c(make_plan(2, 2, 1, {1, 3}, 1, Recompute::none, 1), script);
        c.options.checkpoints = c.directory.path();
        losses_of(c.options);
        std::ifstream file(checkpoint_path(c.directory.path(), steps), std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    const std::string wanted = file_of("");
    ck_assert_uint_gt(wanted.size(), 10000U);
    ck_assert(file_of("3 swap 0 3\n6 swap 1 2\n") == wanted);
}

TEST(a_run_that_goes_on_has_the_roles_of_its_plan_again) {
    Case c(make_plan(2, 2, 1), "3 swap 0 3\n3 split 6,2\n");
    const auto wanted = told_nothing(c.options.plan);
    c.options.checkpoints = c.directory.path();
    c.options.steps = 5;
    auto losses = c.losses();
    c.options.steps = steps;
    const auto rest = c.losses();
    losses.insert(losses.end(), rest.begin(), rest.end());
    assert_same_losses(losses, wanted, rounding, "two lives");
}

TEST(split_and_swap_go_together) {
    const TrainPlan plan = make_plan(2, 2, 1);
    const Case c(plan, "2 split 6,2\n4 swap 0 3\n6 split 3,5\n8 swap 1 2\n");
    const Case split(plan, "2 split 6,2\n6 split 3,5\n");
    assert_equal(c.losses(), split.losses(), "roles do not matter to a split");
    assert_same_losses(c.losses(), told_nothing(plan), rounding, "both");
}

// ---- park -------------------------------------------------------------------------------------

double parked_s(const Case& c) {
    double all = 0;
    for (const Json& event : c.events())
        if (event.at("event") == "unparked") all += event.at("seconds").get<double>();
    return all;
}

TEST(a_park_costs_its_time_and_nothing_else) {
    const TrainPlan plan = make_plan(2, 2, 1);
    std::string often;
    for (Index step = 1; step <= steps; ++step) often += std::to_string(step) + " park 0.02s\n";
    const Case c(plan, often);
    assert_equal(c.losses(), told_nothing(plan), "parked before each step");
    ck_assert_uint_eq(c.events().size(), 1U + 2 * steps);
    ck_assert_double_ge(parked_s(c), 0.02 * steps);
}

TEST(who_is_released_leaves_its_park_early) {
    const Case c(make_plan(1, 2, 1), "4 park 60s\n");
    write_file(c.directory / "script.release", "");
    assert_equal(c.losses(), told_nothing(make_plan(1, 2, 1)), "released");
    ck_assert_double_lt(parked_s(c), 30);
}

TEST(who_is_told_to_leave_leaves_its_park_first) {
    Case c(make_plan(1, 2, 1), "1 park 60s\n");
    c.options.checkpoints = c.directory.path();
    told_to_leave = true;
    const auto outcomes = train_all(c.options);
    told_to_leave = false;
    for (const Outcome& outcome : outcomes) ck_assert(outcome.status.ok() && outcome.requeue);
    ck_assert_uint_eq(outcomes.front().losses.size(), 1U);
    ck_assert_double_lt(parked_s(c), 30);
}

// ---- the ranks' groups ------------------------------------------------------------------------

TEST(a_group_is_in_the_order_of_its_keys) {
    run_threads(6, [](Comm& world) {
        const int rank = world.rank();
        const int keys[] = {5, 3, 3, 0, 9, 1};
        const auto all = world.split(0, keys[rank]);
        const int places[] = {4, 2, 3, 0, 5, 1};
        ck_assert_int_eq(all->rank(), places[rank]);
        const auto half = world.split(rank % 2, -rank);
        ck_assert_int_eq(half->size(), 3);
        ck_assert_int_eq(half->rank(), 2 - rank / 2);
        const int next = (all->rank() + 1) % 6, last = (all->rank() + 5) % 6;
        const float mine[] = {static_cast<float>(all->rank())};
        float got[] = {-1};
        send_floats(*all, mine, next);
        receive_floats(*all, got, last);
        ck_assert_float_eq(got[0], static_cast<float>(last));
        const std::string text = share_text(*all, std::to_string(all->rank()), 4);
        ck_assert_str_eq(text.c_str(), "4");
    });
}

}  // namespace
