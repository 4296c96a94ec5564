// SPDX-License-Identifier: GPL-2.0-or-later
// Several siblings on one pipeline of threads: each learns to the last bit what it would learn
// alone, whatever the order of blocks, the buffers, and who comes and goes.
#include <random>

#include "array_members.h"
#include "train/array/timetable.h"
#include "train/core/device_module.h"

using namespace arena;
using namespace arena::train;
using namespace arena::train::test;

namespace {

struct Files {
    Directory directory;
    std::string data = directory / "text";
    Files() { write_file(data, text(2000)); }
    [[nodiscard]] std::string made(const std::string& name) const {
        const std::string path = directory / name;
        std::filesystem::create_directory(path);
        return path;
    }
};

/// All at once, to their ends.
ScriptedMembers::Script at_once(const std::vector<MemberOptions>& members) {
    return [members](Index boundary, const ScriptedMembers&) {
        std::vector<MemberEvent> events;
        for (std::size_t i = 0; boundary == 0 && i < members.size(); ++i)
            events.push_back(joins(static_cast<MemberId>(i), members[i]));
        return events;
    };
}

void assert_ended(const ScriptedMembers& source, MemberId id, int code) {
    ck_assert_msg(source.fates.contains(id), "member %d was never heard of", static_cast<int>(id));
    const MemberFate& fate = source.fates.at(id);
    ck_assert_msg(fate.code == code, "member %d ended with %d, not %d: %s", static_cast<int>(id),
                  fate.code, code, fate.why.c_str());
}

/// Weights and moments of `directory` are those of the member alone under the plan.
void assert_as_alone(const Files& files, const MemberOptions& m, const TrainPlan& plan,
                     const std::string& directory) {
    const std::string own =
        files.made("alone." + std::to_string(m.member) + "." + std::to_string(plan.layout.pp));
    losses_of(alone(m, plan, own));
    ck_assert_msg(state_in(directory, m.shape) == state_in(own, m.shape),
                  "member %d learnt something else than alone on %d stages",
                  static_cast<int>(m.member), static_cast<int>(plan.layout.pp));
    std::filesystem::remove_all(own);
}

void compare_with_alone(const ArrayOptions& options, Index members = 3, Index steps = 20) {
    const Files files;
    std::vector<MemberOptions> siblings;
    for (Index i = 0; i < members; ++i)
        siblings.push_back(
            sibling(i, files.data, steps, files.made("member." + std::to_string(i))));
    ScriptedMembers source(at_once(siblings));
    run_threaded_array(options, source);
    for (const MemberOptions& m : siblings) {
        assert_ended(source, m.member, 0);
        ck_assert_int_eq(source.fates.at(m.member).steps(), steps);
        assert_as_alone(files, m, options.plan, m.checkpoints);
        assert_as_alone(files, m, stages_of({4}), m.checkpoints);
    }
}

TEST(three_members_on_four_stages_learn_to_the_bit_what_each_learns_alone) {
    compare_with_alone(array_of(stages_of({1, 1, 1, 1})));
}

TEST(so_they_do_with_two_buffers_that_are_fetched_ahead) {
    compare_with_alone(array_of(stages_of({1, 1, 1, 1}), 2));
    compare_with_alone(array_of(stages_of({1, 3}), 1));
    compare_with_alone(array_of(stages_of({2, 2}), 3), 5);
}

TEST(so_they_do_with_each_kind_of_recomputation) {
    for (const Recompute kind : {Recompute::none, Recompute::selective})
        compare_with_alone(array_of(stages_of({1, 2, 1}, kind)));
    compare_with_alone(array_of(stages_of({4})));
}

TEST(so_they_do_on_a_device_with_memory_of_its_own) {
    const Files files;
    const TrainPlan plan = stages_of({2, 2});
    std::vector<MemberOptions> siblings;
    for (Index i = 0; i < 3; ++i)
        siblings.push_back(sibling(i, files.data, 20, files.made("member." + std::to_string(i))));
    ScriptedMembers source(at_once(siblings));
    run_threaded_array(array_of(plan), source, arena_train_open_device);
    for (const MemberOptions& m : siblings) {
        assert_ended(source, m.member, 0);
        const TrainOptions own = alone(m, plan, files.made("alone"));
        run_threads(2, [&](Comm& world) {
            ck_assert(train::train(own, world, arena_train_open_device).status.ok());
        });
        ck_assert(state_in(m.checkpoints, m.shape) == state_in(own.checkpoints, m.shape));
        std::filesystem::remove_all(own.checkpoints);
    }
}

/// Blocks of all members in any order that keeps each member's own.
array::Order shuffled(Index members, Index blocks, std::uint64_t seed) {
    array::Order order;
    for (Index m = 0; m < members; ++m) order.insert(order.end(), at(blocks), static_cast<int>(m));
    std::mt19937_64 random(seed);
    std::shuffle(order.begin(), order.end(), random);
    return order;
}

/// Blocks of a stage, in their order.
std::vector<std::pair<int, bool>> blocks_on(const array::Order& order, Index stage, Index stages) {
    std::map<int, Index> places;
    std::vector<std::pair<int, bool>> blocks;
    for (const int job : order) {
        const PlaceInChain place = place_in_chain(places[job]++, stages);
        if (place.stage == stage) blocks.emplace_back(job, place.backward);
    }
    return blocks;
}

TEST(a_thousand_iterations_in_orders_that_differ_between_stages_come_to_an_end) {
    const Files files;
    const TrainPlan plan = stages_of({1, 2, 1});
    Index round = 0, differ = 0;
    ArrayOptions options = array_of(plan, 2);
    options.order = [&](Index members, Index iterations) {
        const array::Order order =
            shuffled(members, 6 * iterations, static_cast<std::uint64_t>(++round));
        differ += blocks_on(order, 0, 3) != blocks_on(order, 1, 3);
        return order;
    };
    std::vector<MemberOptions> siblings;
    for (Index i = 0; i < 3; ++i) {
        siblings.push_back(sibling(i, files.data, 1000, files.made("member." + std::to_string(i))));
        siblings.back().optimizer.rate *= 0.1F;
    }
    ScriptedMembers source(at_once(siblings));
    const ArrayEnd end = run_threaded_array(options, source);
    ck_assert_int_eq(end.iterations, 1000);
    ck_assert_msg(differ > end.rounds / 2, "orders differed in %d of %d rounds",
                  static_cast<int>(differ), static_cast<int>(end.rounds));
    for (const MemberOptions& m : siblings) {
        assert_ended(source, m.member, 0);
        assert_as_alone(files, m, stages_of({4}), m.checkpoints);
    }
}

TEST(members_join_and_leave_fifty_times_and_go_on_where_they_were) {
    const Files files;
    const TrainPlan plan = stages_of({2, 2});
    std::vector<MemberOptions> siblings;
    for (Index i = 0; i < 4; ++i)
        siblings.push_back(sibling(i, files.data, 200, files.made("member." + std::to_string(i))));
    Index joins_and_leaves = 0;
    std::atomic<bool> told = false;
    MemberId last = 4;
    std::map<Index, MemberId> lives;  // of each sibling, the last one
    // Every third boundary somebody is told to leave, or who left comes back.
    ScriptedMembers source([&](Index boundary, const ScriptedMembers& so_far) {
        std::vector<MemberEvent> events;
        told = std::ranges::count_if(so_far.fates,
                                     [](const auto& one) { return one.second.code == 0; }) == 4;
        if (boundary % 3 != 0) return events;
        const MemberOptions& m = siblings[at(boundary / 3 % 4)];
        const auto life = lives.find(m.member);
        if (life == lives.end() || so_far.fates.at(life->second).code == m.requeue_code) {
            lives[m.member] = ++last;
            events.push_back(joins(last, m));
        } else if (so_far.fates.at(life->second).code < 0 && joins_and_leaves < 50) {
            events.push_back({MemberEvent::What::leave, life->second, {}});
        }
        joins_and_leaves += static_cast<Index>(events.size());
        return events;
    });
    ArrayOptions options = array_of(plan, 2);
    options.idle_s = 60;  // who left comes back; it ends when all are done
    options.told = &told;
    options.round_s = options.longest_round_s = 0;
    run_threaded_array(options, source);
    ck_assert_msg(joins_and_leaves >= 50, "%d only", static_cast<int>(joins_and_leaves));
    for (const MemberOptions& m : siblings) {
        assert_ended(source, lives.at(m.member), 0);
        assert_as_alone(files, m, plan, m.checkpoints);
    }
}

TEST(a_checkpoint_of_a_member_is_one_of_a_run_alone_and_the_reverse) {
    const Files files;
    const TrainPlan plan = stages_of({1, 3});
    MemberOptions first = sibling(0, files.data, 7, files.made("first"));
    MemberOptions second = sibling(1, files.data, 20, files.made("second"));
    TrainOptions begun = alone(second, plan, second.checkpoints);
    begun.steps = 9;
    losses_of(begun);
    ScriptedMembers source(at_once({first, second}));
    run_threaded_array(array_of(plan), source);
    assert_ended(source, 0, 0);
    assert_ended(source, 1, 0);
    ck_assert_int_eq(source.fates.at(1).steps(), 11);
    assert_as_alone(files, second, stages_of({4}), second.checkpoints);
    first.steps = 20;
    losses_of(alone(first, stages_of({2, 2}), first.checkpoints));
    assert_as_alone(files, first, stages_of({4}), first.checkpoints);
}

TEST(a_member_that_is_gone_or_behind_disturbs_nobody) {
    const Files files;
    const TrainPlan plan = stages_of({2, 2});
    std::vector<MemberOptions> siblings;
    for (Index i = 0; i < 3; ++i)
        siblings.push_back(sibling(i, files.data, 20, files.made("member." + std::to_string(i))));
    const auto all = at_once(siblings);
    ScriptedMembers* self = nullptr;
    Index steps_of_slow = -1;
    ScriptedMembers source([&](Index boundary, const ScriptedMembers& so_far) {
        auto events = all(boundary, so_far);
        if (boundary == 2) events.push_back({MemberEvent::What::gone, 0, {}});
        if (boundary == 2) self->slow.insert(1);
        const auto other = so_far.fates.find(2);
        if (other != so_far.fates.end() && other->second.code == 0 && self->slow.erase(1) > 0)
            steps_of_slow = so_far.fates.at(1).steps();
        return events;
    });
    self = &source;
    ArrayOptions options = array_of(plan, 2);
    options.round_s = options.longest_round_s = 0;
    run_threaded_array(options, source);
    ck_assert_int_lt(source.fates.at(0).steps(), 20);
    ck_assert(must(checkpoint_steps(siblings[0].checkpoints)).empty());
    ck_assert_msg(steps_of_slow >= 0 && steps_of_slow < 20, "it ran %d steps while behind",
                  static_cast<int>(steps_of_slow));
    for (const Index i : {1, 2}) {
        assert_ended(source, i, 0);
        assert_as_alone(files, siblings[at(i)], plan, siblings[at(i)].checkpoints);
    }
}

TEST(an_array_that_is_told_to_leave_saves_all_and_each_goes_on_alone) {
    const Files files;
    const TrainPlan plan = stages_of({3, 1});
    std::vector<MemberOptions> siblings;
    for (Index i = 0; i < 3; ++i)
        siblings.push_back(sibling(i, files.data, 20, files.made("member." + std::to_string(i))));
    siblings.push_back(sibling(3, files.data, 20, ""));
    siblings[2].checkpoints = "";
    std::atomic<bool> told = false;
    const auto all = at_once(siblings);
    ScriptedMembers source([&](Index boundary, const ScriptedMembers& so_far) {
        told = boundary == 4;
        auto events = all(boundary, so_far);
        if (boundary == 2) events.push_back({MemberEvent::What::leave, 3, {}});
        return events;
    });
    ArrayOptions options = array_of(plan);
    options.round_s = options.longest_round_s = 0;
    options.told = &told;
    ck_assert(run_threaded_array(options, source).told);
    for (const Index i : {0, 1}) {
        assert_ended(source, i, siblings[at(i)].requeue_code);
        losses_of(alone(siblings[at(i)], plan, siblings[at(i)].checkpoints));
        assert_as_alone(files, siblings[at(i)], plan, siblings[at(i)].checkpoints);
    }
    // One that saves nothing begins anew; where it was told itself that is its end.
    assert_ended(source, 2, siblings[2].requeue_code);
    assert_ended(source, 3, 1);
    ck_assert(source.fates.at(3).why.find("without --checkpoint: nothing is saved") !=
              std::string::npos);
}

TEST(what_an_array_can_not_train_is_refused_in_a_sentence) {
    const ArrayLimits limits{.shape = sibling_gpt(), .batch = 4, .members = 2};
    MemberOptions m = sibling(0, "/text", 1, "");
    ck_assert(check_member(m, limits).ok());
    m.optimizer.clip = 1;
    arena::test::assert_refused(check_member(m, limits), "say --clip 0");
    m = sibling(0, "/text", 1, "");
    m.batch = 5;
    arena::test::assert_refused(check_member(m, limits), "5 samples; this array has memory for 4");
    m = sibling(0, "/text", 1, "");
    m.shape.tied = true;
    arena::test::assert_refused(check_member(m, limits), "siblings share one model");
    ArrayLimits tied = limits;
    tied.shape.tied = true;
    arena::test::assert_refused(check_member(m, tied), "take a model with a head of its own");
    ArrayOptions options = array_of(stages_of({4}));
    options.plan.layout.tp = 2;
    arena::test::assert_refused(check_array(options), "one rank per stage");
}

TEST(a_member_whose_data_are_bad_ends_with_their_sentence_and_alone) {
    const Files files;
    const std::string bad = files.directory / "bad";
    write_file(bad, text(900) + std::string(1, '\x7f') + text(600));
    std::vector<MemberOptions> siblings{
        sibling(0, files.data, 20, files.made("good")), sibling(1, bad, 400, ""),
        sibling(2, files.directory / "none", 9, ""), sibling(0, files.data, 9, "")};
    ScriptedMembers source(at_once(siblings));
    run_threaded_array(array_of(stages_of({1, 1, 2})), source);
    assert_ended(source, 0, 0);
    assert_as_alone(files, siblings[0], stages_of({4}), siblings[0].checkpoints);
    assert_ended(source, 1, 2);
    ck_assert(source.fates.at(1).why.find("is not below the vocabulary of 66") !=
              std::string::npos);
    assert_ended(source, 2, 3);
    ck_assert(source.fates.at(2).why.find("cannot be opened") != std::string::npos);
    assert_ended(source, 3, 3);
    ck_assert(source.fates.at(3).why.find("attached already") != std::string::npos);
}

}  // namespace
