// SPDX-License-Identifier: GPL-2.0-or-later
// The page of `arena history --html`: well-formed, alone in the world, and true to the events.

#include <string>

#include "cli/cluster/history_page.h"
#include "page_reader.h"
#include "suite.h"

using namespace arena;
using namespace arena::cli;

namespace {

constexpr double t0 = 1'800'000'000;

/// Waits, runs on two GPUs, is moved to four for a reason, is slow there for a time.
Past moved_job() {
    return {.job = 42,
            .uid = 1000,
            .events = {{t0, "waiting", "profile run of gpt2 on a40"},
                       {t0 + 10, "waiting", "waits for 2xa40"},
                       {t0 + 40, "running", "2xa40 pp1,dp2,tp1,mb1x4: fits now", 0, 0.5},
                       {t0 + 60, "measured", "0.55 s per iteration", 0.55, 0.5},
                       {t0 + 340, "checkpointing", "grows to 4xa40"},
                       {t0 + 345, "waiting", "4xa40 pp1,dp4,tp1,mb1x2: to start on n1"},
                       {t0 + 350, "running", "4xa40 pp1,dp4,tp1,mb1x2: its fastest shape", 0, 0.3},
                       {t0 + 400, "slow", "n1/0 compute 2.00 times, action S2"},
                       {t0 + 450, "slow no more", "n1/0 compute 2.00 times, action S2"},
                       {t0 + 650, "over", "used 0.9 of its steps"}},
            .over = true};
}

}  // namespace

TEST(stretches_are_what_a_job_did_one_after_the_other) {
    const std::vector<Stretch> all = stretches_of(moved_job(), t0 + 9999);
    using Kind = Stretch::Kind;
    const struct {
        Kind kind;
        double from, to;
        const char *shape, *why;
        double estimate, measured;
    } wanted[] = {
        {Kind::waits, 0, 10, "", "profile run of gpt2 on a40", 0, 0},
        {Kind::waits, 10, 40, "", "waits for 2xa40", 0, 0},
        {Kind::runs, 40, 340, "2xa40 pp1,dp2,tp1,mb1x4", "fits now", 0.5, 0.55},
        {Kind::saves, 340, 345, "2xa40 pp1,dp2,tp1,mb1x4", "grows to 4xa40", 0, 0},
        {Kind::waits, 345, 350, "", "to start on n1", 0, 0},
        {Kind::runs, 350, 650, "4xa40 pp1,dp4,tp1,mb1x2", "its fastest shape", 0.3, 0},
    };
    ck_assert_uint_eq(all.size(), std::size(wanted));
    for (std::size_t i = 0; i < all.size(); ++i) {
        ck_assert(all[i].kind == wanted[i].kind);
        ck_assert_double_eq(all[i].from_s, t0 + wanted[i].from);
        ck_assert_double_eq(all[i].to_s, t0 + wanted[i].to);
        ck_assert_str_eq(all[i].shape.c_str(), wanted[i].shape);
        ck_assert_str_eq(all[i].why.c_str(), wanted[i].why);
        ck_assert_double_eq(all[i].estimate_s, wanted[i].estimate);
        ck_assert_double_eq(all[i].measured_s, wanted[i].measured);
    }
    Past alive = moved_job();
    alive.events.pop_back();
    alive.over = false;
    ck_assert_double_eq(stretches_of(alive, t0 + 700).back().to_s, t0 + 700);
    ck_assert_double_eq(stretches_of(alive, t0).back().to_s, t0 + 450);  // a clock that is behind
}

TEST(the_state_is_what_the_job_does_whatever_it_tells_meanwhile) {
    Past alive = moved_job();
    alive.over = false;
    alive.events.resize(4);
    ck_assert(alive.events.back().state == "measured");
    const std::string page = history_page(alive, t0 + 100);
    ck_assert_msg(page.find("<dd>running</dd>") != std::string::npos, "%s", page.c_str());
    ck_assert(history_page(moved_job(), t0 + 700).find("<dd>over</dd>") != std::string::npos);
}

TEST(a_life_stands_on_the_page) {
    const std::string page = history_page(moved_job(), t0 + 9999);
    assert_stands_alone(page);
    ck_assert(page == history_page(moved_job(), t0 + 700));  // it is over
    ck_assert_uint_eq(count(page, "<rect class=\"waits\" x="), 3);
    ck_assert_uint_eq(count(page, "<rect class=\"runs\" x="), 2);
    ck_assert_uint_eq(count(page, "<rect class=\"saves\" x="), 1);
    ck_assert_uint_eq(count(page, "<circle class=\"mark\""), 3);
    ck_assert_uint_eq(count(page, "<dt>runs</dt><dd>2</dd>"), 1);
    ck_assert_uint_eq(count(page, "<dt>waited</dt><dd>45 s</dd>"), 1);
    ck_assert_uint_eq(count(page, "<dt>ran</dt><dd>10 min</dd>"), 1);
    ck_assert_uint_eq(count(page,
                            "<td class=\"text\">grows to 4xa40</td><td>0.5 s</td>"
                            "<td class=\"text\">0.55 s, 10.0 % more than estimated</td>"),
                      1);
    ck_assert_uint_eq(count(page, "<td class=\"text\">over</td>"), 1);
    ck_assert_uint_eq(count(page, "Seconds per iteration: measured 1 time"), 1);
    ck_assert_uint_eq(count(page, "more are not kept"), 0);
}

TEST(a_job_that_has_not_run_or_said_nothing_has_a_page_too) {
    Past past{.job = 7, .uid = 0, .events = {{t0, "waiting", "waits for 2xa40"}}};
    std::string page = history_page(past, t0 + 60);
    assert_stands_alone(page);
    ck_assert_uint_eq(count(page, "It has not run."), 1);
    ck_assert_uint_eq(count(page, "Iterations"), 0);
    past.events.clear();
    page = history_page(past, t0);
    assert_stands_alone(page);
    ck_assert_uint_eq(count(page, "Nothing has happened to it yet."), 1);
    // All that is left of a run in the middle of which the history begins.
    past.events = {{t0, "checkpointing", ""}, {t0 + 5, "over", ""}};
    past.over = true;
    assert_stands_alone(history_page(past, t0));
}

TEST(words_of_strangers_are_text_on_a_jobs_page) {
    const std::string evil = "</title></style><script>alert(1)</script>\"'&\x01\xff: <img src=x>";
    Past past = moved_job();
    for (PastEvent& event : past.events) {
        if (event.state == "slow") event.state = evil;
        event.text = (event.state == "running" ? "4x" : "") + evil;
    }
    const std::string page = history_page(past, t0);
    assert_stands_alone(page);
    ck_assert_uint_eq(count(page, "<script"), 0);
    ck_assert_uint_gt(count(page, "alert(1)"), 0);
}

TEST(hundreds_of_lives_are_told_as_far_as_they_are_kept) {
    Past past{.job = 7, .uid = 0, .events = {}, .left_out = 952, .left_out_after = 8};
    for (int i = 0; i < 48; i += 4) {
        const double at_s = t0 + i * 100;
        const std::string shape = std::to_string(i + 1) + "xa40 pp1,dp1,tp1,mb1x1";
        past.events.push_back({at_s, "waiting", "waits"});
        past.events.push_back({at_s + 10, "running", shape + ": fits", 0, 1});
        past.events.push_back({at_s + 70, "measured", "", 1.0 + i, 1});
        past.events.push_back({at_s + 90, "checkpointing", "gives way"});
    }
    const std::string page = history_page(past, t0 + 9999);
    assert_stands_alone(page);
    ck_assert_uint_eq(count(page, "952 more are not kept"), 1);
    ck_assert_uint_eq(count(page, "952 events after the first 8 are not kept"), 1);
    ck_assert_uint_eq(count(page, "<rect class=\"runs\" x="), 12);
    ck_assert_uint_eq(count(page, ">other shapes<title>"), 1);  // a row each, but not without end
    ck_assert_uint_lt(page.size(), 100'000);
}
