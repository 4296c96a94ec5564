// SPDX-License-Identifier: GPL-2.0-or-later
// What a watched job's parts say: each frame is read as it was written, and what is no frame, or
// out of its range, is refused by a sentence.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/unit/suite.h"
#include "watch/wire/frames.h"

using namespace arena;
using namespace arena::watch;

namespace {

using test::assert_refused;
using test::assert_text;
using test::must;

/// One of each, with every field other than its default.
std::vector<Frame> one_of_each() {
    TrainerPlan plan;
    plan.dp = 2;
    plan.pp = 3;
    plan.tp = 4;
    plan.micro_batches = {5, 3};
    plan.gradient_bytes = 1.5e9;
    plan.activation_bytes = 2.25e6;
    plan.state_bytes = {1e9, 2e9, 3e9};
    plan.link_bytes = 1 << 20;
    plan.same_state_in_stage = false;
    plan.checkpoints = true;
    plan.restart_s = 31.5;
    return {
        AgentHello{"node-1", 1500},
        RankHere{7, 16, 3},
        Iterations{7, 2, {{1'700'000'000'123, 1'200'345, 4096}, {1'700'000'001'123, 1, 0}}},
        GroupTimes{7, {{"0123456789ab", "all_reduce", 1 << 30, -1, {0.1, 0.2}}}, {1, 1.5}},
        Silent{9, 12.5},
        TooDear{0.0125, true},
        TrainerHello{{"n1", "n2"}, {0, -1}},
        plan,
        StepDone{40, 1'700'000'000'123, 0.31, 8192, {0.01, 0.02}},
        Obeyed{41, "split 5,3", 0.02},
        Checked{3, {{0, 65.5, "a100"}}, {{0, 1, 16.25}}, 2.5, "not all"},
        Profile{8},
        EventOpen{true},
        Say{"check 3 links 0>1,2>3|1>2"},
        Release{},
        Tell{"Root cause: comp"},
    };
}

TEST(each_frame_is_read_as_it_was_written) {
    const std::vector<Frame> all = one_of_each();
    ck_assert_uint_eq(all.size(), std::variant_size_v<Frame>);
    for (std::size_t i = 0; i < all.size(); ++i) {
        ck_assert_uint_eq(all[i].index(), i);
        const std::string line = format_watch_frame(all[i]);
        ck_assert(line.find('\n') == std::string::npos);
        const Frame again = must(parse_watch_frame(line));
        ck_assert_uint_eq(again.index(), i);
        assert_text(format_watch_frame(again), line);
    }
    const auto plan = std::get<TrainerPlan>(must(parse_watch_frame(format_watch_frame(all[7]))));
    ck_assert(plan.micro_batches == (std::vector<std::int64_t>{5, 3}) && plan.pp == 3);
    ck_assert(plan.restart_s == 31.5 && plan.checkpoints && !plan.same_state_in_stage);
    assert_text(format_watch_frame(all[9]),
                R"({"seconds":0.02,"step":41,"type":"obeyed","word":"split 5,3"})");
}

TEST(a_field_that_is_missing_or_of_another_kind_is_refused) {
    for (const Frame& frame : one_of_each()) {
        const Json whole = must(parse_json(format_watch_frame(frame)));
        for (const auto& [key, value] : whole.items()) {
            Json part = whole;
            part.erase(key);
            assert_refused(parse_watch_frame(dump_json(part)), key + ": is missing");
            part[key] = value.is_object() ? Json(1) : Json::object();
            assert_refused(parse_watch_frame(dump_json(part)), key);
            part[key] = nullptr;
            assert_refused(parse_watch_frame(dump_json(part)), key);
        }
    }
}

TEST(keys_of_a_later_release_are_left_out) {
    const auto frame =
        must(parse_watch_frame(R"({"type":"profile","iterations":5,"why":{"a":[]}})"));
    ck_assert_int_eq(std::get<Profile>(frame).iterations, 5);
}

TEST(numbers_out_of_range_are_refused) {
    const char* const bad[] = {
        R"({"type":"rank_here","rank":-1,"ranks":1,"gpu":0})",
        R"({"type":"rank_here","rank":65536,"ranks":1,"gpu":0})",
        R"({"type":"rank_here","rank":0.5,"ranks":1,"gpu":0})",
        R"({"type":"rank_here","rank":0,"ranks":1,"gpu":99999999999999999999})",
        R"({"type":"iterations","rank":0,"series":0,"done":[{"end_ms":1,"time_us":0,"tokens":0}]})",
        R"({"type":"silent","rank":0,"seconds":-1})",
        R"({"type":"silent","rank":0,"seconds":NaN})",
        R"({"type":"silent","rank":0,"seconds":1e999})",
        R"({"type":"too_dear","share":1e300,"stopped":false})",
        R"({"type":"checked","id":1,"gpus":[{"rank":0,"ms":0,"type":""}],"links":[],"seconds":0,"failure":""})",
        R"({"type":"step_done","step":0,"end_ms":0,"seconds":1,"tokens":0,"micro_batch_s":[]})",
        R"({"type":"step_done","step":1,"end_ms":0,"seconds":1,"tokens":0,"micro_batch_s":["1"]})",
        R"({"type":"trainer_hello","nodes":["n1"],"gpus":[]})",
        R"({"type":"agent_hello","node":"a\nb","poll_ms":1})",
        R"({"type":"gossip"})",
        R"({"type":7})",
        R"([])",
        R"("profile")",
        "",
    };
    for (const char* const text : bad) {
        const auto frame = parse_watch_frame(text);
        ck_assert_msg(!frame.ok(), "was accepted: %s", text);
    }
    Silent nan{0, std::numeric_limits<double>::quiet_NaN()};
    ck_assert(!parse_watch_frame(format_watch_frame(nan)).ok());
    nan.seconds = std::numeric_limits<double>::infinity();
    ck_assert(!parse_watch_frame(format_watch_frame(nan)).ok());
}

TEST(a_plan_fits_its_lists) {
    TrainerPlan plan;
    plan.dp = 2;
    plan.micro_batches = {4};
    assert_refused(parse_watch_frame(format_watch_frame(plan)), "a count for each replica");
    plan.micro_batches = {4, 4};
    plan.state_bytes = {1, 2};
    assert_refused(parse_watch_frame(format_watch_frame(plan)), "a number for each stage");
    plan.dp = plan.pp = plan.tp = 65'536;
    assert_refused(parse_watch_frame(format_watch_frame(plan)), "at most 65536 ranks");
}

TEST(what_is_deep_long_or_of_many_parts_is_refused) {
    std::string deep = R"({"type":"profile","iterations":5,"x":)";
    assert_refused(parse_watch_frame(deep + std::string(5, '[') + std::string(5, ']') + "}"),
                   "nested deeper");
    assert_refused(parse_watch_frame(std::string(longest_frame + 1, ' ')), "larger than");
    Iterations many;
    many.done.resize(4097, {.end_ms = 0, .time_us = 1, .tokens = 0});
    assert_refused(parse_watch_frame(format_watch_frame(many)), "at most 4096");
    many.done.pop_back();
    ck_assert(parse_watch_frame(format_watch_frame(many)).ok());
    GroupTimes groups;
    groups.groups.resize(1025);
    assert_refused(parse_watch_frame(format_watch_frame(groups)), "at most 1024");
    assert_refused(
        parse_watch_frame(format_watch_frame(GroupTimes{1, {{"a", "send", 8, 0, {0.1}}}, {1, 2}})),
        "one for each of step_s");
    assert_refused(parse_watch_frame(format_watch_frame(AgentHello{std::string(256, 'n'), 1})),
                   "at most 255 bytes");
}

}  // namespace
