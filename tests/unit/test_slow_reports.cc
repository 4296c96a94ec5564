// SPDX-License-Identifier: GPL-2.0-or-later
// Reports of slow GPUs and links from their text to what a job shows: the parser, how many are
// taken, which are refused, the box that they wait in, the book, and the scheduler on a scripted
// host.
#include <nlohmann/json.hpp>

#include "plugin/job_submit/modify_rules.h"
#include "plugin/sched/host/end_comment.h"
#include "plugin/sched/socket/verbs.h"
#include "reports/next_plan.h"
#include "reports/rate_limit.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;
using arena::test::assert_text;

namespace {

const std::string compute =
    "arena:slow;life=0;onset=1000;at=n3/1;cause=compute;factor=2.1;action=S2;lost_s=41;"
    "steps=100";
const std::string link =
    "arena:slow;life=0;onset=1000;at=n3;cause=communication;factor=3;action=S4;lost_s=0;"
    "steps=100;peer=n4";
const std::string unknown =
    "arena:slow;life=0;onset=1000;cause=unknown;factor=1.9;action=none;lost_s=11;steps=100";

SlowReport report(const std::string& text = compute) { return parse_slowdown_report(text).value(); }

bool is_refused(const std::string& text) { return !parse_slowdown_report(text).ok(); }

std::string with(std::string text, const std::string& old, const std::string& now) {
    const std::size_t at = text.find(old);
    ck_assert(at != std::string::npos);
    return text.replace(at, old.size(), now);
}

TEST(a_report_says_itself_again) {
    for (const std::string& text : {compute, link, compute + ";relief=1100"})
        assert_text(format_slow_report(report(text)), text);
    assert_text(slow_word(report()), "n3/1:compute:x2.1");
    assert_text(slow_word(report(link)), "n3+n4:communication:x3.0");
    const std::string node = with(compute, "n3/1", "n3");  // which of its GPUs is not known
    assert_text(slow_word(report(node)), "n3:compute:x2.1");
    assert_text(format_slow_report(report(node)), node);
    ck_assert(report() == parse_slowdown_report(format_slow_report(report())).value());
    const std::string suspected = with(compute, ";steps", ";confidence=0.97;steps");
    assert_text(format_slow_report(report(suspected)), suspected);
    assert_text(slow_word(report(suspected)), "n3/1:compute:x2.1:suspected=0.97");
    ck_assert(report(suspected).is_suspicion() && !report().is_suspicion());
}

TEST(what_cannot_be_is_refused) {
    for (const char* factor : {"nan", "inf", "-2", "0", "1", "1000.1", "1e308", "2,1", ""})
        ck_assert_msg(is_refused(with(compute, "2.1", factor)), "%s", factor);
    for (const char* confidence : {"nan", "0", "-1", "1.01", ""})
        ck_assert(is_refused(compute + ";confidence=" + confidence));
    for (const char* lost : {"nan", "-1", "1e9", "inf"})
        ck_assert_msg(is_refused(with(compute, "=41", std::string("=") + lost)), "%s", lost);
    for (const char* at : {"n3/", "n3/-1", "n3/1024", "/1", "n 3/1", "n3=4/1", "n3/1/2", ""})
        ck_assert_msg(is_refused(with(compute, "n3/1", at)), "%s", at);
    for (const char* onset : {"0", "-5", "99999999999", "1e3"})
        ck_assert_msg(is_refused(with(compute, "1000", onset)), "%s", onset);
    ck_assert(is_refused(with(compute, "S2", "S5")));
    ck_assert(is_refused(with(compute, "compute", "disk")));
    ck_assert(is_refused(with(compute, "life=0", "life=4294967296")));
    ck_assert(is_refused(compute + ";relief=999"));
    ck_assert(is_refused(compute + ";relief=nan"));
    ck_assert(is_refused(compute + ";peer=n4"));  // a slow GPU has no other end
    ck_assert(is_refused(compute + ";life=0"));   // twice
    ck_assert(is_refused(compute + ";more=1"));   // an unknown key
    ck_assert(is_refused(with(link, ";peer=n4", "")));
    ck_assert(is_refused(with(link, "peer=n4", "peer=n3")));
    ck_assert(is_refused(with(link, "peer=n4", "peer=n3/0")));
    ck_assert(!is_refused(with(with(link, "at=n3", "at=n3/1"), "peer=n4", "peer=n3/0")));
    ck_assert(is_refused(compute + std::string(600, ' ')));
    ck_assert(is_refused("arena:slow;"));
    ck_assert(is_refused("arena:observed;iteration_s=1"));
}

TEST(a_job_that_floods_is_refused_alone) {
    ReportLimit limit({.job = {6, 10}, .user = {60, 1}, .all = {240, 0.25}});
    double now_s = 1e6;
    int taken = 0;
    for (int i = 0; i < 100'000; ++i) taken += limit.take(1, 500, now_s + i * 60.0 / 100'000);
    ck_assert_int_ge(taken, 11);
    ck_assert_int_le(taken, 12);  // six at once, and one each ten seconds
    now_s += 60;
    ck_assert(limit.take(2, 500, now_s));  // another job of the same user
    ck_assert(limit.take(3, 501, now_s));
    for (int i = 0; i < 6; ++i) ck_assert(limit.take(1, 500, now_s + 100));
    ck_assert(!limit.take(1, 500, now_s + 100));
    ck_assert(!limit.take(1, 500, now_s));  // nor do earlier times fill it
}

TEST(many_jobs_of_a_user_and_of_all_have_a_limit_and_little_is_kept) {
    ReportLimit limit({.job = {6, 10}, .user = {60, 1}, .all = {240, 0.25}});
    int of_one = 0, of_all = 0;
    for (JobId job = 1; job <= 1000; ++job) of_one += limit.take(job, 500, 0);
    ck_assert_int_eq(of_one, 60);
    for (JobId job = 2000; job <= 3000; ++job) of_all += limit.take(job, job, 0);
    ck_assert_int_eq(of_one + of_all, 240);
    for (int second = 0; second < 3600; ++second)
        for (JobId job = 1; job <= 100; ++job)
            limit.take(10'000 + job * 7 + static_cast<JobId>(second) * 1000, job, second);
    ck_assert_uint_le(limit.kept(), 2100);
}

WatchedJob watched() {
    return {.mode = SlowdownMode::watch,
            .runs = true,
            .life = 0,
            .start = 900,
            .now = 1050,
            .gpus_at = 2,
            .gpus_of_peer = std::nullopt};
}

/// Refused with these words, of a job that is changed so.
void refused(const std::string& text, const std::function<void(WatchedJob&)>& change,
             const char* words) {
    WatchedJob job = watched();
    change(job);
    const std::string why = refuse_slow_report(report(text), job);
    ck_assert_msg(why.find(words) != std::string::npos, "\"%s\", not \"%s\"", why.c_str(), words);
}

TEST(a_report_must_fit_the_job) {
    assert_text(refuse_slow_report(report(), watched()), "");
    const auto as_it_is = [](WatchedJob&) {};
    refused(
        compute, [](WatchedJob& j) { j.runs = false; }, "does not run under a plan");
    refused(
        compute, [](WatchedJob& j) { j.mode = SlowdownMode::off; }, "not watched");
    refused(
        compute, [](WatchedJob& j) { j.life = 2; }, "in its life 2, not 0");
    refused(
        compute, [](WatchedJob& j) { j.start = 1100; }, "before its start");
    refused(
        compute, [](WatchedJob& j) { j.now = 930; }, "in the future");
    refused(compute + ";relief=1200", as_it_is, "in the future");
    refused(with(compute, "=41", "=111"), as_it_is, "more than the time since the onset");
    refused(
        compute, [](WatchedJob& j) { j.gpus_at.reset(); }, "n3 is no node of it");
    refused(
        compute, [](WatchedJob& j) { j.gpus_at = 1; }, "n3 has 1 GPU, none of index 1");
    refused(link, as_it_is, "n4 is no node of it");
    refused(with(compute, ";steps=100", ""), as_it_is, "0 of its steps were watched");
    WatchedJob root = watched();
    root.by_admin = true;
    assert_text(refuse_slow_report(report(with(compute, ";steps=100", "")), root), "");
    assert_text(refuse_slow_report(report(unknown), watched()), "");
    WatchedJob job = watched();
    job.gpus_of_peer = 2;
    assert_text(refuse_slow_report(report(link), job), "");
}

LeftSlowReport left(JobId job, const std::string& text, std::int64_t gpus = 4) {
    return {.job = job, .user = 500, .gpus = gpus, .report = report(text)};
}

TEST(the_box_keeps_the_latest_of_each_event_and_has_an_end) {
    (void)take_slow_reports();
    ck_assert(leave_slow_report(left(1, compute)));
    ck_assert(leave_slow_report(left(1, link)));
    ck_assert(leave_slow_report(left(1, with(compute, "=41", "=50"))));
    const auto taken = take_slow_reports();
    ck_assert_uint_eq(taken.size(), 2);
    ck_assert(taken[1].report.lost_s == 50);
    JobId job = 1;
    while (leave_slow_report(left(job, compute))) ++job;
    ck_assert_uint_eq(job, 257);
    ck_assert(leave_slow_report(left(1, compute)));  // of an event that waits already
    ck_assert_uint_eq(take_slow_reports().size(), 256);
}

TEST(the_book_counts_what_was_lost_once) {
    SlowdownBook book;
    ck_assert(book.on_slow_report(left(1, compute)));
    assert_text(book.words_of(1), "slow=n3/1:compute:x2.1 action=S2 lost=41s");
    ck_assert(!book.on_slow_report(left(1, with(compute, "=41", "=50"))));
    ck_assert(!book.on_slow_report(left(1, compute)));  // an old one, late
    ck_assert(book.counts().lost_gpu_s == 200);
    ck_assert(book.on_slow_report(left(1, link)));
    assert_text(book.words_of(1), "slow=n3+n4:communication:x3.0 action=S4 lost=50s");
    ck_assert_uint_eq(book.open(), 2);
    ck_assert(book.on_slow_report(left(1, link + ";relief=1100")));
    assert_text(book.words_of(1), "slow=n3/1:compute:x2.1 action=S2 lost=50s");
    ck_assert(book.on_slow_report(left(1, with(compute, "S2", "S4"))));
    ck_assert(book.is_suspected("n3") && !book.is_suspected("n4"));
    ck_assert(book.clear("n3") == std::set<JobId>{1});
    ck_assert(!book.is_suspected("n3"));
    assert_text(book.words_of(1), "lost=50s");
    ck_assert_uint_eq(book.counts().events, 2);
    // The next life of the job begins anew.
    ck_assert(book.on_slow_report(left(1, with(compute, "life=0", "life=1"))));
    ck_assert_uint_eq(book.events(1).size(), 1);
}

TEST(steps_that_nobody_can_explain_are_an_event_of_no_node) {
    assert_text(format_slow_report(report(unknown)), unknown);
    SlowdownBook book;
    ck_assert(book.on_slow_report(left(1, unknown)));
    assert_text(book.words_of(1), "slow=steps:unknown:x1.9 action=none lost=11s");
    ck_assert(!book.is_suspected("") || book.events(1).size() == 1);
    for (const char* bad : {"at=n3;cause=unknown", "cause=compute", "cause=communication"})
        ck_assert_msg(!parse_slowdown_report(with(unknown, "cause=unknown", bad)), "%s", bad);
}

TEST(a_job_has_few_events) {
    SlowdownBook book;
    for (int i = 0; i < 100; ++i)
        book.on_slow_report(left(1, with(compute, "1000", std::to_string(1000 + i))));
    ck_assert_uint_eq(book.events(1).size(), SlowdownBook::max_events);
    ck_assert_int_eq(book.events(1).back().report.onset, 1099);
    ck_assert(book.events(2).empty());
}

TEST(the_comment_has_the_words_once) {
    const std::string running = "arena:v1 state=running grid=2xa40";
    const std::string slow = with_slow_words(running, "slow=n3/1:compute:x2.1 action=S2 lost=4s");
    assert_text(slow, running + " slow=n3/1:compute:x2.1 action=S2 lost=4s");
    assert_text(with_slow_words(slow, "lost=9s"), running + " lost=9s");
}

// ---- the scheduler ------------------------------------------------------------------------------

using Json = nlohmann::json;

JobView& running_job(Scene& scene, std::optional<SlowdownMode> mode) {
    scene.node("n3", "a40", 4, 4);
    Request request = Scene::request();
    request.slowdown = mode;
    JobView& job = scene.job(1, request);
    job.user_id = 500;
    return job;
}

TEST(a_report_is_shown_and_told) {
    Scene scene;
    running_job(scene, SlowdownMode::mitigate);
    auto scheduler = scene.scheduler();
    scheduler->round();
    scene.host.calls.clear();
    scheduler->on_slow_report(left(1, compute), 1000);
    ck_assert_uint_eq(scene.host.calls.size(), 1);
    assert_text(scene.host.calls[0], "show slow=n3/1:compute:x2.1 action=S2 lost=41s 1");
    const Json explained = Json::parse(scheduler->explain(1))["slowdown"];
    ck_assert(explained["mode"] == "mitigate" && explained["events"].size() == 1);
    const Json stats = Json::parse(scheduler->stats_json({}, {.taken = 1, .over_rate = 7}));
    ck_assert(stats["slowdown"]["lost_gpu_s"] == 164 && stats["slowdown"]["over_rate"] == 7);
}

TEST(a_round_of_jobs_that_are_not_watched_makes_no_call_more) {
    const auto calls = [](std::optional<SlowdownMode> mode) {
        Scene scene;
        running_job(scene, mode);
        auto scheduler = scene.scheduler();
        for (int i = 0; i < 3; ++i) scheduler->round();
        ck_assert(!Json::parse(scheduler->explain(1)).contains("slowdown"));
        for (const std::string& variable : scene.host.last_shape.environment)
            ck_assert(!variable.starts_with("ARENA_SLOWDOWN"));
        return scene.host.calls;
    };
    ck_assert(calls(std::nullopt) == calls(SlowdownMode::off));
    for (const std::string& call : calls(std::nullopt)) ck_assert(!call.starts_with("show"));
}

TEST(a_job_goes_by_its_own_word_and_then_by_the_site) {
    const auto told = [](std::optional<SlowdownMode> mode, const char* by_default) {
        Scene scene;
        scene.config.slowdown_default = by_default;
        running_job(scene, mode);
        scene.scheduler()->round();
        for (const std::string& variable : scene.host.last_shape.environment)
            if (variable.starts_with("ARENA_SLOWDOWN=")) return variable.substr(15);
        return std::string("off");
    };
    assert_text(told(std::nullopt, "off"), "off");
    assert_text(told(std::nullopt, "watch"), "watch");
    assert_text(told(SlowdownMode::off, "mitigate"), "off");
    assert_text(told(SlowdownMode::mitigate, "watch"), "mitigate");
}

TEST(a_slow_link_is_held_against_both_of_its_nodes) {
    Scene scene;
    running_job(scene, SlowdownMode::watch);
    scene.node("n4", "a40", 4, 4);
    auto scheduler = scene.scheduler();
    scheduler->round();
    scheduler->on_slow_report(left(1, link), 1000);
    scheduler->on_slow_report(left(1, unknown), 1000);
    scheduler->round();
    ck_assert_uint_eq(scene.host.extras.size(), 2);
    for (const auto& change : scene.host.extras) {
        const std::string peer = change.node == "n3" ? "peer=n4" : "peer=n3";
        ck_assert_msg(change.after.find(peer) != std::string::npos, "%s", change.after.c_str());
    }
    for (NodeIndex i = 0; i < 2; ++i)
        scene.host.view.node_records[i].extra = scene.host.extras[i].after;
    scene.host.extras.clear();
    scheduler->on_slow_report(left(1, link + ";relief=1100"), 1100);
    scheduler->round();
    ck_assert_uint_eq(scene.host.extras.size(), 2);
    for (const auto& change : scene.host.extras) assert_text(change.after, "");
}

TEST(an_event_ends_with_the_life_of_its_job) {
    Scene scene;
    running_job(scene, SlowdownMode::watch);
    auto scheduler = scene.scheduler();
    scheduler->on_slow_report(left(1, compute), 1000);
    const auto events = [&] {
        return Json::parse(scheduler->slowdown(SlowdownVerb::list, "", {true, 0, true}))["events"];
    };
    scheduler->round();
    ck_assert_uint_eq(events().size(), 1);
    scene.host.view.jobs[0].facts.restart = 1;  // it was requeued
    scheduler->round();
    ck_assert_uint_eq(events().size(), 0);
}

TEST(what_a_job_says_after_a_clear_is_open_again) {
    SlowdownBook book;
    book.on_slow_report(left(1, compute));
    book.clear("n3");
    ck_assert(!book.on_slow_report(left(1, with(compute, "=41", "=50"))));
    ck_assert_uint_eq(book.open(), 0);
    ck_assert(book.on_slow_report(left(1, with(compute, "S2", "S4"))));
    ck_assert_uint_eq(book.open(), 1);
}

TEST(another_scheduler_takes_over_what_jobs_said) {
    Scene scene;
    JobView& job = running_job(scene, SlowdownMode::mitigate);
    auto before = scene.scheduler();
    before->round();
    job.facts.state = HostJobState::running;
    before->on_slow_report(left(1, with(compute, "S2", "S4")), 1000);
    auto after = scene.scheduler();
    after->take_over(before->keep());
    before.reset();
    scene.host.calls.clear();
    after->round();
    ck_assert(
        Json::parse(after->slowdown(SlowdownVerb::list, "", {true, 0, true}))["events"].size() ==
        1);
    ck_assert_uint_eq(scene.host.extras.size(), 1);
    ck_assert(scene.host.extras[0].after.starts_with("arena:v1 slow=1:compute:2.10 seen=1 by=1"));
}

TEST(users_see_their_own_and_an_administrator_clears) {
    Scene scene;
    running_job(scene, SlowdownMode::watch);
    auto scheduler = scene.scheduler();
    scheduler->round();
    scheduler->on_slow_report(left(1, compute), 1000);
    const auto ask = [&](SlowdownVerb verb, const char* word, const Asker& asker) {
        return Json::parse(scheduler->slowdown(verb, word, asker));
    };
    const Asker root{true, 0, true}, owner{false, 500, false}, other{false, 501, false};
    ck_assert_uint_eq(ask(SlowdownVerb::list, "", root)["events"].size(), 1);
    ck_assert_uint_eq(ask(SlowdownVerb::list, "", owner)["events"].size(), 1);
    ck_assert_uint_eq(ask(SlowdownVerb::list, "", other)["events"].size(), 0);
    ck_assert(ask(SlowdownVerb::show, "1", owner)["mode"] == "watch");
    ck_assert(ask(SlowdownVerb::show, "1", other).contains("error"));
    ck_assert(ask(SlowdownVerb::show, "x", root)["error"]["code"] == 2);
    ck_assert(ask(SlowdownVerb::check, "n9", root)["error"]["code"] == 1);
    ck_assert(ask(SlowdownVerb::check, "n3", root)["check"] == "asked");
    ck_assert(ask(SlowdownVerb::list, "", root)["checks"] == Json::array({"n3"}));
    ck_assert(ask(SlowdownVerb::clear, "n3", root)["jobs"] == Json::array({1}));
    assert_text(scene.host.calls.back(), "show lost=41s 1");
    ck_assert(ask(SlowdownVerb::clear, "n3", root)["error"]["code"] == 1);
    ck_assert(ask(SlowdownVerb::list, "", root)["checks"].empty());
}

// ---- verbs of the socket ------------------------------------------------------------------------

TEST(a_line_is_the_longest_verb_that_it_reads_as) {
    const std::vector<Verb> verbs{
        {.name = "stats"}, {.name = "stats reset"}, {.name = "slowdown clear", .subject = "NODE"}};
    const auto read = [&](std::string_view line) {
        std::string_view word;
        const Verb* verb = find_verb(verbs, line, word);
        return verb ? std::string(verb->name) + "|" + std::string(word) : std::string("-");
    };
    assert_text(read("stats"), "stats|");
    assert_text(read("stats reset"), "stats reset|");
    assert_text(read("slowdown clear n3"), "slowdown clear|n3");
    for (const char* line : {"", "stat", "stats ", "stats now", "slowdown clear", "slowdown clear ",
                             "slowdown clear a b", "slowdown  clear n3"})
        assert_text(read(line), "-");
}

TEST(verbs_have_rights) {
    const Verb all{.name = "a"}, some{.name = "b", .right = Right::listed, .listed = {7}},
        few{.name = "c", .right = Right::administrator, .listed = {7}};
    constexpr std::uint32_t slurm = 64030;
    for (const std::uint32_t uid : {0U, slurm})
        ck_assert(may(all, uid, slurm) && may(some, uid, slurm) && may(few, uid, slurm));
    ck_assert(may(all, 7, slurm) && may(some, 7, slurm) && !may(few, 7, slurm));
    ck_assert(may(all, 8, slurm) && !may(some, 8, slurm) && !may(few, 8, slurm));
    assert_text(words_of_refusal(few, 8), "only root and SlurmUser may say \"c\"; you are uid 8");
}

TEST(a_script_asks_for_its_next_plan_and_knows_the_answer) {
    const NextAsk ask{.life = 3, .plan = 2, .id = "4f2a"};
    assert_text(format_next_ask(ask), "arena:next;life=3;plan=2;id=4f2a");
    const auto read = parse_next_ask(format_next_ask(ask));
    ck_assert(read && *read == ask);
    for (const char* bad : {"", "arena:next;", "arena:next;life=3;plan=2",
                            "arena:next;life=3;plan=2;id=", "arena:next;life=-1;plan=2;id=1",
                            "arena:next;life=3;plan=x;id=1", "arena:next;life=3;plan=2;id=X",
                            "arena:next;plan=2;life=3;id=1", "arena:next;life=3;plan=2;id=1;more=1",
                            "arena:next;life=3;plan=2;id=0123456789abcdef0123456789abcdef0"})
        ck_assert_msg(!parse_next_ask(bad), "%s", bad);
    const NextAnswer answer{
        .id = "4f2a",
        .variables = {{"ARENA_PLAN", R"({"a":"it's \"b\""})"}, {"SLURM_NTASKS", "2"}}};
    const auto again = parse_next_answer(format_next_answer(answer));
    ck_assert(again && *again == answer);
    for (const char* bad : {"", "arena offers: 1xa40", "arena next {}", "arena next []",
                            R"(arena next {"id":"1"})", R"(arena next {"id":1,"variables":{}})",
                            R"(arena next {"id":"1","variables":{"PATH":"/tmp"}})",
                            R"(arena next {"id":"1","variables":{"ARENA_X;id":"1"}})",
                            R"(arena next {"id":"1","variables":{"ARENA_X":1}})"})
        ck_assert_msg(!parse_next_answer(bad), "%s", bad);
}

}  // namespace
