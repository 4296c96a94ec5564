// SPDX-License-Identifier: GPL-2.0-or-later
// What happened to jobs, as it is kept, written, told to their owners, and shown to everybody.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "directory.h"
#include "plugin/sched/history/histogram.h"
#include "plugin/sched/history/history_file.h"
#include "plugin/sched/history/job_account.h"
#include "plugin/sched/live/live_json.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

HistoryLine line(double at_s, JobId job, std::string state, std::string text = {}) {
    return {
        .at_s = at_s, .job = job, .uid = 10, .state = std::move(state), .text = std::move(text)};
}

TEST(a_state_is_told_at_once_and_its_reasons_not_too_often) {
    JobHistory history;
    ck_assert(history.note(line(100, 1, "waiting", "for GPUs")));
    ck_assert(!history.note(line(101, 1, "waiting", "for a profile")));
    ck_assert(history.note(line(102, 1, "running", "4xa40")));
    ck_assert(history.note(line(103, 1, "running", "4xa40")));  // nothing new, and taken
    ck_assert(history.note(line(200, 1, "running", "it grows")));
    const JobPast* past = history.find(1);
    ck_assert_uint_eq(past->events.size(), 3);
    ck_assert_str_eq(past->events[1].state.c_str(), "running");
    ck_assert_uint_eq(history.news().size(), 2);  // changes of state
    ck_assert_uint_eq(history.take_new().size(), 3);
    ck_assert_uint_eq(history.take_new().size(), 0);
}

TEST(of_a_job_that_is_over_its_history_makes_how_its_time_went) {
    JobPast past;
    past.events = {{100, "waiting", ""},        {230, "running", "4xa40"},
                   {1230, "checkpointing", ""}, {1250, "waiting", ""},
                   {1270, "running", "8xa40"},  {3270, std::string(JobHistory::over_state), ""}};
    const JobAccount account = account_of(past);
    // Saved for 20 s, waited for 20 s for its second life.
    ck_assert(account == (JobAccount{.lives = 2, .waited_s = 130, .ran_s = 3000, .moved_s = 40}));
    const std::string words = words_of(account);
    ck_assert_str_eq(words.c_str(), "lives=2 waited=130s ran=3000s moved=40s running=0.987");
    ck_assert(account_of(JobPast{}) == JobAccount{});
    // What stands beside its states ends none of them.
    past.events.insert(past.events.begin() + 3, {1240, "measured", "", 0.5, 0.4});
    past.events.insert(past.events.begin() + 2, {300, "slow", ""});
    ck_assert(account_of(past) == account);
}

TEST(a_run_is_measured_once_and_again_where_it_has_changed) {
    JobHistory history;
    const auto measured = [&](double at_s, double iteration_s) {
        HistoryLine told = line(at_s, 1, "", "x");
        told.iteration_s = iteration_s;
        told.estimate_s = 1;
        return history.measure(told);
    };
    ck_assert(history.note(line(1, 1, "running", "4xa40: why")));
    const std::size_t news = history.news().size();
    ck_assert(measured(10, 1.1));
    ck_assert(!measured(20, 2));      // too soon,
    ck_assert(!measured(100, 1.12));  // nothing new,
    ck_assert(measured(100, 1.2));    // news
    ck_assert_uint_eq(history.news().size(), news);
    const JobPast* past = history.find(1);
    ck_assert_uint_eq(past->events.size(), 3);
    ck_assert(past->events.back().state == JobHistory::measured_state);
    ck_assert(past->events.back().iteration_s == 1.2 && past->events.back().estimate_s == 1);
    // The state is the same after it: no news, and its reason is still known.
    ck_assert(past->last_told()->text == "4xa40: why");
    ck_assert(history.note(line(200, 1, "running", "4xa40: why")));
    ck_assert_uint_eq(past->events.size(), 3);
    ck_assert(history.note(line(210, 1, "waiting", "")));
    ck_assert(history.note(line(211, 1, "running", "4xa40: why")));
    ck_assert(measured(212, 1.2));  // another run
    ck_assert_uint_eq(history.take_new().size(), 6);
    // Who tells another time each minute does not push out what happened to the job.
    int told = 0;
    for (int minute = 1; minute <= 256; ++minute)
        told += measured(212 + 60 * minute, 1 + minute % 2);
    ck_assert_int_eq(told, 7);
    history.add(line(99999, 1, "over", ""));
    ck_assert_msg(!measured(100000, 3), "a late report");
    ck_assert(history.find(1)->over);
}

TEST(the_first_and_the_last_events_of_a_job_are_kept) {
    JobHistory history({.first_events = 2, .events = 5, .same_state_s = 0});
    for (int i = 0; i < 20; ++i) history.note(line(i, 1, "waiting", std::to_string(i)));
    const JobPast* past = history.find(1);
    std::string kept;
    for (const JobEvent& event : past->events) kept += event.text + " ";
    ck_assert_str_eq(kept.c_str(), "0 1 17 18 19 ");
    ck_assert_uint_eq(past->left_out, 15);
}

TEST(jobs_that_were_longest_over_are_forgotten_first) {
    JobHistory history({.bytes = 20000});
    const auto gone = [](JobId job) { return job <= 3; };
    for (JobId job = 1; job <= 5; ++job) history.note(line(job, job, "running"));
    history.end(gone, 10);
    ck_assert(history.find(3)->over && !history.find(4)->over);
    for (JobId job = 100; history.find(1) != nullptr; ++job) {
        ck_assert_uint_lt(job, 1000);
        history.note(line(20, job, "running"));
    }
    ck_assert(history.find(2) != nullptr && history.find(4) != nullptr);
    for (JobId job = 1000; job < 2000; ++job) history.note(line(20, job, "running"));
    ck_assert_uint_le(history.bytes(), 20000);
    ck_assert(history.find(4) == nullptr && history.find(1999) != nullptr);
}

TEST(an_end_is_when_slurm_says_and_a_run_that_no_round_saw_is_told) {
    JobHistory history;
    history.note(line(100, 1, "waiting for GPUs"));
    history.note(line(100, 2, "running"));
    history.note(line(100, 3, "waiting"));
    history.note(line(100, 4, "running"));
    history.end([](JobId) { return true; }, 110,
                {{1, {103, 107}}, {2, {100, 100}}, {4, {99, 200}}});
    const auto words = [&](JobId job) { return words_of(account_of(*history.find(job))); };
    const std::string unseen = words(1), brief = words(2);
    ck_assert_str_eq(unseen.c_str(), "lives=1 waited=3s ran=4s moved=0s running=1.000");
    ck_assert_str_eq(brief.c_str(), "lives=1 waited=0s ran=0s moved=0s running=1.000");
    // Cancelled while it waited; an end in the future is that of a clock that was set.
    ck_assert_int_eq(account_of(*history.find(3)).lives, 0);
    ck_assert_double_eq(account_of(*history.find(4)).ran_s, 10);
    for (JobId job = 1; job <= 4; ++job) ck_assert(history.find(job)->over);
}

TEST(a_job_id_of_another_user_is_another_job) {
    JobHistory history;
    history.note(line(1, 7, "running"));
    history.note({.at_s = 2, .job = 7, .uid = 11, .state = "waiting", .text = {}});
    ck_assert_uint_eq(history.find(7)->uid, 11);
    ck_assert_uint_eq(history.find(7)->events.size(), 1);
}

TEST(lines_survive_their_file) {
    const test::Directory directory;
    HistoryFile file(directory / "history.jsonl");
    ck_assert_uint_eq(file.read().lines.size(), 0);
    const std::vector<HistoryLine> lines = {line(1, 1, "waiting", "quote \" backslash \\ <b>"),
                                            line(2.5, 2, "running", "\xc3\xbc"),
                                            {.at_s = 3,
                                             .job = 2,
                                             .uid = 1000,
                                             .state = "measured",
                                             .text = "",
                                             .iteration_s = 0.5,
                                             .estimate_s = 0.25}};
    ck_assert(file.append(lines).ok());
    ck_assert(file.read().lines == lines);
    std::ofstream(directory / "history.jsonl", std::ios::app) << "{\"t\":3,\"job\":1,\"ui";
    const HistoryFile::Read cut = file.read();
    ck_assert(cut.lines == lines);
    ck_assert_uint_eq(cut.broken, 1);
}

TEST(the_files_stay_within_bounds) {
    const test::Directory directory;
    const std::string path = directory / "history.jsonl";
    HistoryFile file(path, 2000);
    for (JobId job = 1; job < 300; ++job) ck_assert(file.append({line(1, job, "running")}).ok());
    std::uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
        bytes += entry.file_size();
    ck_assert_uint_le(bytes, 2 * 2100);
    const auto read = file.read();
    ck_assert_uint_eq(read.lines.back().job, 299);
    ck_assert_uint_eq(read.lines.front().job, 300 - read.lines.size());
}

TEST(a_file_of_others_is_neither_read_nor_written) {
    const test::Directory directory;
    const std::string path = directory / "history.jsonl";
    std::ofstream(path) << format_history_line(line(1, 1, "running")) << "\n";
    ck_assert_int_eq(::chmod(path.c_str(), 0644), 0);
    HistoryFile file(path);
    ck_assert(!file.read().problem.empty() && file.read().lines.empty());
    ck_assert(!file.append({line(2, 1, "over")}).ok());
    std::filesystem::remove(path);
    std::filesystem::create_symlink("/etc/passwd", path);
    ck_assert(!file.read().problem.empty());
    ck_assert(!file.append({line(2, 1, "over")}).ok());
}

TEST(lines_that_are_none_are_refused) {
    for (const char* text : {"", "[]", "{}", R"({"t":1,"job":0,"uid":1,"state":"a","text":""})",
                             R"({"t":-1,"job":1,"uid":1,"state":"a","text":""})",
                             R"({"t":1,"job":4294967296,"uid":1,"state":"a","text":""})",
                             R"({"t":1,"job":1,"uid":1,"state":"a","text":"\u0007"})",
                             R"({"t":1,"job":1,"uid":1,"state":["a"],"text":""})"})
        ck_assert_msg(!parse_history_line(text).ok(), "%s", text);
    ck_assert(!parse_history_line(std::string(5000, ' ') + "{}").ok());
}

TEST(buckets_count_up_to_their_bounds) {
    Histogram histogram(std::vector<double>{1, 10});
    for (const double value : std::vector<double>{0.5, 1, 2, 100, NAN}) histogram.add(value);
    ck_assert(histogram.counts() == (std::vector<std::uint64_t>{2, 1, 1}));
    ck_assert_double_eq(histogram.sum(), 103.5);
}

// ---- the scheduler -----------------------------------------------------------------------------

struct LiveScene : Scene {
    LiveScene() { node("n1", "a40", 4, 4); }
    JobView& of_user(JobId id, std::uint32_t uid, std::string name) {
        Request r = request();
        r.min_gpus = r.max_gpus = 4;
        JobView& view = job(id, r);
        view.user_id = uid;
        view.time_limit_s = 600;
        view.name = std::move(name);
        return view;
    }
};

Json live(Scheduler& scheduler, bool jobs = true, bool nodes = true, std::size_t most_jobs = 500) {
    return Json::parse(live_json({.books = scheduler.books(),
                                  .round = scheduler.last_round(),
                                  .stats = scheduler.stats(),
                                  .now_s = 1000},
                                 {.jobs = jobs, .nodes = nodes, .most_jobs = most_jobs}));
}

TEST(a_job_s_history_is_told_to_its_owner_and_to_administrators) {
    LiveScene scene;
    scene.of_user(1, 10, "first");
    const auto scheduler = scene.scheduler();
    scheduler->round();
    const auto asked = [&](bool privileged, std::uint32_t uid, JobId job) {
        return Json::parse(scheduler->history_json(job, {privileged, uid, true}));
    };
    const Json own = asked(false, 10, 1);
    ck_assert_msg(own.contains("events"), "%s", own.dump().c_str());
    ck_assert(own["events"].back()["state"] == "running");
    ck_assert_msg(own["events"].back()["text"].get<std::string>().starts_with("4xa40 pp"), "%s",
                  own.dump().c_str());
    ck_assert(asked(true, 0, 1) == own);
    const Json others = asked(false, 11, 1), unknown = asked(false, 11, 2);
    ck_assert(!others.contains("events") && others["error"]["code"] == 1);
    std::string other_words = others.dump(), unknown_words = unknown.dump();
    for (std::string* words : {&other_words, &unknown_words})
        std::erase_if(*words, [](char c) { return c == '1' || c == '2'; });
    ck_assert_str_eq(other_words.c_str(), unknown_words.c_str());

    scene.host.view.jobs.clear();
    ck_assert(scheduler->has_work());  // or nobody would notice that it is over
    scheduler->round();
    ck_assert(!scheduler->has_work());
    ck_assert(asked(false, 10, 1)["over"].get<bool>());
    ck_assert(live(*scheduler)["running"].empty());
}

TEST(a_new_slurmctld_reads_the_history) {
    LiveScene scene;
    scene.of_user(1, 10, "first");
    {
        const auto scheduler = scene.scheduler();
        scheduler->round();
    }
    scene.host.view.jobs.clear();
    const auto scheduler = scene.scheduler();
    scheduler->take_over({});
    scheduler->round();
    const Json past = Json::parse(scheduler->history_json(1, {false, 10, true}));
    ck_assert_msg(past.contains("events"), "%s", past.dump().c_str());
    ck_assert(past["over"].get<bool>());  // it ended while nobody looked
}

TEST(a_new_scheduler_knows_why_a_job_was_started) {
    LiveScene scene;
    JobView& job = scene.of_user(1, 10, "first");
    auto scheduler = scene.scheduler();
    scheduler->round();
    const auto told = [&] {
        return Json::parse(scheduler->history_json(1, {false, 10, true}))["events"];
    };
    const Json before = told();
    const std::string why = Json::parse(scheduler->explain(1))["reason"];
    ck_assert(!why.empty());
    job.facts.state = HostJobState::running;
    job.facts.held = false;
    job.facts.mark->phase = Phase::started;
    job.offer_json = to_json(scene.host.last_shape.offer);
    job.start_s = 1000;
    job.nodes = {0};
    scene.host.view.snapshot.nodes[0].free_gpus = 0;
    scheduler.reset();
    scheduler = scene.scheduler();
    scheduler->take_over({});
    scene.host.view.snapshot.time_s = 1100;
    scheduler->round();
    ck_assert_msg(told() == before, "%s", told().dump().c_str());
    ck_assert(Json::parse(scheduler->explain(1))["reason"] == why);
}

TEST(everybody_sees_what_private_data_leaves) {
    LiveScene scene;
    scene.of_user(1, 10, "<script>alert(1)</script>\n\"x\\");
    scene.of_user(2, 11, "waits");
    const auto scheduler = scene.scheduler();
    scheduler->round();
    const Json open = live(*scheduler);
    ck_assert_int_eq(open["jobs_waiting"].get<int>() + open["jobs_running"].get<int>(), 2);
    ck_assert_uint_eq(open["running"].size(), 1);
    ck_assert(open["running"][0]["name"] == "<script>alert(1)</script>\n\"x\\");
    ck_assert(!open["waiting"][0]["reason"].get<std::string>().empty());
    ck_assert_int_eq(open["pools"][0]["gpus"].get<int>(), 4);
    ck_assert(open["nodes"][0]["node"] == "n1");

    const Json no_jobs = live(*scheduler, false, true);
    for (const char* list : {"waiting", "running", "news", "slow"})
        ck_assert_msg(no_jobs[list].empty(), "%s", list);
    ck_assert_int_eq(no_jobs["jobs_running"].get<int>(), 1);
    ck_assert(no_jobs.dump().find("waits") == std::string::npos);
    const Json no_nodes = live(*scheduler, true, false);
    ck_assert(no_nodes["nodes"].empty() && !no_nodes["pools"].empty());
}

/// What the map and the times are drawn of.
TEST(the_page_is_told_where_each_job_lies_and_when_it_ran_and_will) {
    LiveScene scene;
    Snapshot& snapshot = scene.host.view.snapshot;
    SwitchTable table;
    snapshot.topology = NetworkKind::tree;
    snapshot.nodes[0].leaf = table.add({"spine", "leaf1"});
    snapshot.nodes[0].boot_s = 30;
    snapshot.switches = table.take();
    scene.host.view.running.push_back({.job = 1, .end_s = 2000, .parts = {{0, 3, 0, 0}}});
    scene.host.view.running.push_back({.job = 77, .end_s = 2000, .parts = {{0, 1, 0, 0}}});
    scene.of_user(1, 10, "first");
    scene.of_user(2, 11, "second");
    const auto scheduler = scene.scheduler();
    scheduler->round();
    const Json now = live(*scheduler);
    const Json& node = now["nodes"][0];
    ck_assert(node["below"] == Json({"spine", "leaf1"}) && node["boot_s"] == 30);
    ck_assert(node["jobs"] == Json({{{"job", 1}, {"gpus", 3}}, {{"job", 77}, {"gpus", 1}}}));
    ck_assert(!live(*scheduler, false, true)["nodes"][0].contains("jobs"));
    const Json& first = now["running"][0];
    ck_assert_msg(first["expected_end_s"].get<double>() > 1000, "%s", first.dump().c_str());
    ck_assert(!first.contains("speed"));  // it has no choice
    const Json& second = now["waiting"][0];
    ck_assert_msg(second["expected_end_s"] > second["expected_start_s"], "%s",
                  second.dump().c_str());
    ck_assert(now["over"].empty());

    scene.host.view.jobs.clear();
    snapshot.time_s += 500;
    scheduler->round();
    const Json later = live(*scheduler);
    ck_assert_uint_eq(later["over"].size(), 1);  // the second never ran
    const Json& over = later["over"][0];
    ck_assert(over["job"] == 1 && over["ran"].size() == 1);
    ck_assert_double_eq(over["ran"][0][1].get<double>() - over["ran"][0][0].get<double>(), 500);
    ck_assert(live(*scheduler, false, true)["over"].empty());
}

TEST(a_job_that_runs_has_words_of_its_own) {
    for (const bool alone : {true, false}) {
        LiveScene scene;
        scene.host.view.snapshot.nodes[0].free_gpus = alone ? 4 : 1;
        Request r = LiveScene::request();
        r.max_gpus = 4;
        scene.job(1, r).time_limit_s = 600;
        const auto scheduler = scene.scheduler();
        scheduler->round();
        const Json json = live(*scheduler);
        ck_assert_uint_eq(json["running"].size(), 1);
        const std::string words = json["running"][0].value("speed", "");
        ck_assert_msg(words.starts_with(alone ? "the fastest of its " : "iterations take "), "%s",
                      words.c_str());
        ck_assert_msg(alone || words.find("times as long as on 4xa40") != std::string::npos, "%s",
                      words.c_str());
    }
}

TEST(a_long_queue_is_cut_and_counted) {
    LiveScene scene;
    for (JobId id = 1; id <= 20; ++id) scene.of_user(id, 10, "job");
    const auto scheduler = scene.scheduler();
    scheduler->round();
    const Json json = live(*scheduler, true, true, 5);
    ck_assert_uint_eq(json["waiting"].size(), 5);
    ck_assert_int_eq(json["jobs_waiting"].get<int>(), 19);
    ck_assert_int_eq(json["waiting"][0]["place"].get<int>(), 1);
}

TEST(stages_of_rounds_are_counted) {
    LiveScene scene;
    const auto scheduler = scene.scheduler();
    for (int i = 0; i < 3; ++i) scheduler->round();
    const Json stats = Json::parse(scheduler->stats_json());
    for (const char* stage : {"survey", "collect", "plan", "decide", "apply", "forecast"}) {
        std::uint64_t rounds = 0;
        for (const Json& count : stats["histograms"]["round_seconds"][stage]["counts"])
            rounds += count.get<std::uint64_t>();
        ck_assert_uint_eq(rounds, 3);
    }
    ck_assert_int_eq(stats["pools"]["a40"]["free"].get<int>(), 4);
}

}  // namespace
