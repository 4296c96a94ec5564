// SPDX-License-Identifier: GPL-2.0-or-later
// Place and time of waiting jobs, as the scheduler tells them on its socket and to squeue --start.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "base/json.h"
#include "plugin/sched/live/live_json.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;
using Json = nlohmann::json;

namespace {

/// One node of four GPUs of two types' worth: n1 is full until second 1600.
struct QueueScene : Scene {
    QueueScene() {
        node("n1", "a40", 4, 0);
        host.view.running = {{.job = 90, .end_s = 1600, .parts = {{0, 4, 16, 0}}}};
    }
    JobView& waits(JobId id, std::uint32_t uid, std::uint32_t node_set = 0) {
        Request r = request();
        r.min_gpus = r.max_gpus = 4;
        JobView& view = job(id, r);
        view.user_id = uid;
        view.time_limit_s = 600;
        view.node_set = node_set;
        return view;
    }
};

Json asked(const Scheduler& scheduler, bool privileged, std::uint32_t uid, bool sees_others) {
    return Json::parse(scheduler.queue_json({privileged, uid, sees_others}));
}

TEST(places_and_starts_follow_the_queue) {
    QueueScene scene;
    scene.waits(1, 10);
    scene.waits(2, 11);
    scene.waits(3, 10);
    const auto scheduler = scene.scheduler();
    scheduler->round();
    const Json json = asked(*scheduler, true, 0, true);
    ck_assert_int_eq(json["waiting"].get<int>(), 3);
    for (int i = 0; i < 3; ++i) {
        const Json& job = json["jobs"][static_cast<std::size_t>(i)];
        ck_assert_int_eq(job["place"].get<int>(), i + 1);
        ck_assert_int_eq(job["job"].get<int>(), i + 1);
        ck_assert_int_eq(job["behind"].is_null() ? 0 : job["behind"].get<int>(), i);
        const double start_s = job["expected_start_s"].get<double>();
        ck_assert_msg(start_s >= 1600 + i * 600 && start_s < 1700 + i * 700, "%d: %g", i, start_s);
        ck_assert_str_eq(job["expected_grid"].get<std::string>().c_str(), "4xa40");
    }
    ck_assert_uint_eq(scene.host.expected.size(), 3);
    ck_assert(scene.host.expected[0].start_s >= 1600);
}

TEST(users_see_their_own_jobs_and_others_places) {
    QueueScene scene;
    scene.waits(1, 10);
    scene.waits(2, 11);
    const auto scheduler = scene.scheduler();
    scheduler->round();
    const Json open = asked(*scheduler, false, 11, true),
               closed = asked(*scheduler, false, 11, false);
    ck_assert_int_eq(open["jobs"][0]["job"].get<int>(), 1);
    ck_assert_int_eq(open["jobs"][1]["behind"].get<int>(), 1);
    for (const char* key : {"state", "reason", "expected_start_s", "behind"})
        ck_assert_msg(!open["jobs"][0].contains(key), "%s", key);
    ck_assert_uint_eq(closed["jobs"].size(), 2);
    ck_assert(closed["jobs"][0] == Json({{"place", 1}}));
    ck_assert(closed["jobs"][1]["behind"].is_null());
    ck_assert_int_eq(closed["jobs"][1]["place"].get<int>(), 2);
    ck_assert(closed["jobs"][1].contains("expected_start_s"));
}

/// Four nodes of four GPUs, two below each of two leaves, with hardly a link between these: a CPU,
/// which stands for the GPUs, computes for so long that anything more is not seen.
struct LeavesScene : QueueScene {
    LeavesScene() {
        config.leaf_oversubscription = 1000;
        auto& snapshot = host.view.snapshot;
        for (const char* name : {"n2", "n3", "n4"}) node(name, "a40", 4, 4);
        snapshot.nodes[0].free_gpus = 4;
        host.view.running.clear();
        snapshot.topology = NetworkKind::tree;
        snapshot.switches = {{"core", -1}, {"leaf1", 0}, {"leaf2", 0}};
        for (NodeIndex n = 0; n < 4; ++n) snapshot.nodes[n].leaf = n < 2 ? 1 : 2;
    }
    void full(NodeIndex n, double until_s) {
        host.view.snapshot.nodes[n].free_gpus = 0;
        std::erase_if(host.view.running, [&](const Occupied& o) { return o.parts[0].node == n; });
        host.view.running.push_back({.job = 90 + n, .end_s = until_s, .parts = {{n, 4, 16, 0}}});
    }
    JobView& pair() {
        Request r = request();
        r.min_gpus = r.max_gpus = 8;
        r.global_batch = 64;
        return job(1, r);
    }
};

Json on_page(Scheduler& scheduler) {
    return Json::parse(live_json({.books = scheduler.books(),
                                  .round = scheduler.last_round(),
                                  .stats = scheduler.stats(),
                                  .now_s = 1000},
                                 {}));
}

TEST(a_queue_says_how_near_together_nodes_will_be) {
    LeavesScene scene;
    for (NodeIndex n = 0; n < 4; ++n) scene.full(n, n < 2 ? 1600 : 90000);
    scene.pair();
    const auto scheduler = scene.scheduler();
    scheduler->round();
    const Json json = asked(*scheduler, true, 0, true);
    const Json& job = json["jobs"][0];
    ck_assert_msg(job.value("expected_grid", "") == "2x4xa40" &&
                      job.value("expected_span", "") == "in one leaf",
                  "%s", json.dump().c_str());
    const Json page = on_page(*scheduler);
    ck_assert_msg(page["waiting"][0].value("expected_span", "") == "in one leaf", "%s",
                  page.dump().c_str());
}

/// From the start to what the job reports: it runs over two leaves, which takes it longer.
TEST(a_job_is_priced_where_its_nodes_lie) {
    LeavesScene scene;
    scene.full(1, 1e9);
    scene.full(3, 1e9);
    scene.pair();
    const auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_msg(called(scene.host, "start 1 n1,n3") || scene.host.started.contains(1), "%s",
                  scheduler->explain(1).c_str());
    const Offer ran = scene.host.started.at(1).offer;
    JobView& job = scene.host.view.jobs[0];
    job.facts.state = HostJobState::running;
    job.facts.held = false;
    job.facts.mark->phase = Phase::started;
    job.offer_json = to_json(ran);
    job.start_s = 1000;
    job.nodes = {0, 2};
    for (const NodeIndex n : job.nodes) scene.host.view.snapshot.nodes[n].free_gpus = 0;
    scheduler->round();
    const auto told = [&] { return Json::parse(scheduler->explain(1)); };
    const Json before = told();
    ck_assert_msg(before["runs"]["span"] == "over 2 leaves of one pod", "%s",
                  before.dump().c_str());
    ck_assert(on_page(*scheduler)["running"][0].value("span", "") == before["runs"]["span"]);
    const Json& offer = before["offers"][before["chosen"].get<std::size_t>()];
    const double near_s = offer["estimate"]["iteration_s"].get<double>(),
                 slower = offer["slower"]["pod"].get<double>();
    ck_assert_double_gt(slower, 1.05);
    ck_assert_double_eq_tol(ran.estimate.iteration_s, near_s * slower, 1e-9);
    ck_assert_double_eq_tol(before["runs"]["iteration_s"].get<double>(), near_s * slower, 1e-9);
    // Half as long again as estimated for these nodes: so it would be on near ones.
    LeftReport left;
    left.job = 1;
    left.record = *job.record.text;
    left.offer_json = to_json(ran);
    left.report.iteration_s = 1.5 * ran.estimate.iteration_s;
    left.report.steps = 100;
    scheduler->observe(left, 2000);
    scheduler->round();
    const Json after = told();
    const Json& corrected = after["offers"][after["chosen"].get<std::size_t>()];
    ck_assert_double_eq_tol(corrected["estimate"]["iteration_s"].get<double>(), 1.5 * near_s,
                            1e-6 * near_s);
    ck_assert_double_eq_tol(after["runs"]["iteration_s"].get<double>(),
                            1.5 * ran.estimate.iteration_s, 1e-6 * near_s);
}

TEST(places_count_those_who_want_the_same_nodes) {
    QueueScene scene;
    auto& snapshot = scene.host.view.snapshot;
    scene.node("n2", "a40", 4, 0);
    snapshot.node_sets = {{0}, {1}, {0, 1}};
    scene.waits(1, 10, 0);
    scene.waits(2, 10, 1);
    scene.waits(3, 10, 2);
    scene.waits(4, 10, 1);
    const auto scheduler = scene.scheduler();
    scheduler->round();
    std::map<int, std::pair<int, int>> places;
    const Json json = asked(*scheduler, true, 0, true);
    for (const Json& job : json["jobs"])
        places[job["job"].get<int>()] = {job["place"].get<int>(),
                                         job["behind"].is_null() ? 0 : job["behind"].get<int>()};
    ck_assert_msg(places[1] == std::pair(1, 0), "%s", json.dump().c_str());
    ck_assert(places[2] == std::pair(1, 0));
    ck_assert(places[3].first == 3);
    ck_assert(places[4] == std::pair(3, 3));  // behind 2 and 3
}

TEST(behind_an_ordinary_job_it_starts_no_earlier) {
    QueueScene scene;
    scene.waits(1, 10).ordinary_start_s = 5000;
    scene.waits(2, 10).ordinary_start_s = 0;  // Slurm has not said
    const auto scheduler = scene.scheduler();
    scheduler->round();
    const Json json = asked(*scheduler, true, 0, true);
    ck_assert(json["jobs"][0]["expected_start_s"].get<double>() >= 5000);
    ck_assert(json["jobs"][1]["ordinary_ahead"].get<bool>());
    ck_assert(!json["jobs"][1].contains("expected_start_s"));
    for (const auto& expected : scene.host.expected)
        ck_assert(expected.job == 1 ? expected.start_s >= 5000 : expected.start_s == 0);
}

/// Three nodes, of which others have some GPUs for a while, and jobs in Slurm's order: those from
/// `ordinary` on stand behind an ordinary one.
struct RandomQueue : QueueScene {
    std::mt19937_64 random{36};
    JobId first = 1, ordinary = 1;

    RandomQueue() {
        config.policy = "arena";
        node("n2", "a40", 4, 4);
        node("n3", "a40", 4, 4);
    }
    std::int64_t upto(std::int64_t most) {
        return std::uniform_int_distribution<std::int64_t>(0, most)(random);
    }
    void deal() {
        const double now_s = host.view.snapshot.time_s += 100;
        first += static_cast<JobId>(host.view.jobs.size());
        host.view.jobs.clear();
        host.view.running.clear();
        host.calls.clear();
        for (NodeIndex n = 0; n < 3; ++n) {
            NodeState& state = host.view.snapshot.nodes[n];
            state.free_gpus = upto(4);
            state.free_cpus = 4 * state.free_gpus;
            const std::int64_t taken = 4 - state.free_gpus;
            host.view.running.push_back({.job = 1000000 + n,
                                         .end_s = now_s + 60 + static_cast<double>(upto(5000)),
                                         .parts = {{n, taken, 4 * taken, 0}}});
        }
        const auto jobs = static_cast<JobId>(2 + upto(5));
        ordinary = first + static_cast<JobId>(upto(jobs));
        const double start_s = now_s + static_cast<double>(upto(1) * upto(5000));
        for (JobId id = first; id < first + jobs; ++id) {
            JobView& view = waits(id, 10 + static_cast<std::uint32_t>(upto(2)));
            Request r = request();
            r.max_gpus = std::int64_t{1} << upto(3);
            r.min_gpus = upto(1) == 0 ? r.max_gpus : 1;
            r.elastic = upto(2) == 0;
            view.record = format_record(r).value();
            view.submit_s = view.eligible_s = now_s - 50 + (id - first);
            view.rank = static_cast<double>(1000 * (1 + upto(2)));
            view.time_limit_s = 60 + static_cast<double>(upto(5000));
            if (id >= ordinary) view.ordinary_start_s = start_s;
        }
    }
};

// Whatever is promised, and to whom: what they may have is Slurm's own backfill's to say, which
// starts nobody who would make the ordinary one start later than is expected of it.
TEST(arena_itself_starts_nobody_who_stands_behind_an_ordinary_job) {
    RandomQueue scene;
    const auto scheduler = scene.scheduler();
    std::size_t before = 0, behind = 0, promised = 0;
    for (int i = 0; i < 500; ++i) {
        scene.deal();
        scheduler->round();
        for (const std::string& call : scene.host.calls) {
            unsigned id = 0;
            if (sscanf(call.c_str(), "release %u", &id) == 1) behind += id >= scene.ordinary;
            if (sscanf(call.c_str(), "start %u", &id) != 1) continue;
            ++before;
            ck_assert_msg(id < scene.ordinary, "queue %d: %s, but %u is ordinary", i, call.c_str(),
                          scene.ordinary);
        }
        for (const JobView& job : scene.host.view.jobs) {
            const Json promise = Json::parse(scheduler->explain(job.id))["promise"];
            if (!promise.is_object() || !promise.contains("ends_by_s")) continue;
            ++promised;
            ck_assert(job.id < scene.ordinary);
        }
    }
    printf("# %zu start, %zu behind ordinary ones are Slurm's to start, %zu promises\n", before,
           behind, promised);
    ck_assert(before > 300 && behind > 300 && promised > 300);
}

TEST(a_promise_is_shown_to_its_owner_and_who_stands_behind_it) {
    QueueScene scene;
    scene.config.policy = "arena";
    scene.waits(1, 10);
    scene.waits(2, 11);
    const auto scheduler = scene.scheduler();
    scheduler->round();
    const Json jobs = asked(*scheduler, true, 0, true)["jobs"];
    ck_assert_msg(jobs[0]["ends_by_s"].get<double>() > 1600 + 600, "%s", jobs.dump().c_str());
    ck_assert(!jobs[1].contains("ends_by_s"));
    const Json others = asked(*scheduler, false, 11, true)["jobs"];
    ck_assert(!others[0].contains("ends_by_s"));
    const Json own = Json::parse(scheduler->explain(1))["promise"];
    ck_assert_msg(own["ends_by_s"] == jobs[0]["ends_by_s"], "%s", own.dump().c_str());
    ck_assert(own["words"].get<std::string>().starts_with("ends by 1970-01-01 00:"));
    ck_assert_str_eq(own["grid"].get<std::string>().c_str(), "4xa40");
    const Json behind = Json::parse(scheduler->explain(2, {false, 11, true}))["promise"],
               hidden = Json::parse(scheduler->explain(2, {false, 11, false}))["promise"];
    ck_assert_int_eq(behind["behind"].get<int>(), 1);
    ck_assert(hidden["behind"].is_null());
    const Json past = Json::parse(scheduler->history_json(1, {}))["events"];
    ck_assert_str_eq(past.back()["state"].get<std::string>().c_str(), "promised");
    ck_assert(past.back()["text"] == own["words"]);
    ck_assert_int_eq(Json::parse(scheduler->stats_json())["promises"]["given"].get<int>(), 1);
}

// The forecast moves nobody; an elastic job gives way when the promise needs its GPUs.
TEST(no_promised_job_is_expected_to_end_later_than_promised) {
    QueueScene scene;
    scene.config.policy = "arena";
    scene.waits(1, 10);
    Request elastic = Scene::request();
    elastic.min_gpus = elastic.max_gpus = 4;
    elastic.elastic = true;
    scene.job(2, elastic).time_limit_s = 86400;
    const auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(called(scene.host, "release 1"));
    scene.host.view.running.clear();
    scene.host.view.snapshot.time_s = 1600;
    JobView& runs = scene.host.view.jobs.back();
    runs.facts.state = HostJobState::running;
    runs.facts.held = false;
    runs.facts.mark = JobMark{};
    runs.facts.mark->phase = Phase::started;
    runs.offer_json = to_json(scene.host.last_shape.offer);
    runs.start_s = 1599;
    runs.nodes = {0};
    runs.nodes_open = true;
    scheduler->round();
    const Json job = asked(*scheduler, true, 0, true)["jobs"][0];
    ck_assert_msg(job["expected_start_s"].get<double>() < 1600 + 600 &&
                      job["expected_start_s"] < job["ends_by_s"],
                  "%s", job.dump().c_str());
    // Both were submitted in one second: the lower number stands first, whoever runs.
    const Json jobs = Json::parse(scheduler->snapshot_json())["snapshot"]["jobs"];
    ck_assert_msg(jobs[0]["job"] == 1 && jobs[1]["phase"] == "running", "%s", jobs.dump().c_str());
}

TEST(who_started_before_a_promised_job_says_why_it_may) {
    QueueScene scene;
    scene.config.policy = "arena";
    scene.node("n2", "a40", 4, 2);
    scene.waits(1, 10);
    Request two = Scene::request();
    two.min_gpus = two.max_gpus = 2;
    scene.job(2, two).time_limit_s = 60;
    const auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_str_eq(scene.host.calls.front().c_str(), "start 2 n2");
    const Json passed = Json::parse(scheduler->explain(1))["promise"]["passed"];
    ck_assert_msg(passed.size() == 1 && passed[0]["job"] == 2, "%s", passed.dump().c_str());
    const std::string why = passed[0]["why"].get<std::string>();
    ck_assert_msg(Json::parse(scheduler->explain(2))["reason"].get<std::string>().ends_with(why),
                  "%s", scheduler->explain(2).c_str());
    const Json past = Json::parse(scheduler->history_json(2, {}))["events"];
    ck_assert(past.back()["text"].get<std::string>().ends_with(why));
}

/// A job that became another between two slices of the reading is neither started nor forgotten.
TEST(a_job_that_changes_while_it_is_read_is_left_alone) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    scene.job(1).changing = true;
    scene.job(2);
    const auto scheduler = scene.scheduler();
    scheduler->round();
    for (const std::string& call : scene.host.calls)
        ck_assert_msg(call.find(" 1 ") == std::string::npos && !call.ends_with(" 1"), "%s",
                      call.c_str());
    ck_assert_uint_eq(scene.host.calls.size(), 1);  // job 2 starts
    scene.host.view.jobs[0].changing = false;
    scene.host.view.jobs.pop_back();
    scheduler->round();
    ck_assert_str_eq(scene.host.calls.back().c_str(), "start 1 n1");
}

TEST(whoever_holds_a_job_is_named_with_what_ends_it) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    scene.job(1).facts.mark->hold = OtherHold::user;
    scene.job(2).facts.mark->hold = OtherHold::admin;
    auto scheduler = scene.scheduler();
    scheduler->round();
    const auto said = [&](JobId job, const std::string& words) {
        return scheduler->explain(job).find(words) != std::string::npos;
    };
    ck_assert(said(1, "\"held by its user\""));
    ck_assert(said(1, "\"scontrol release 1 lets it be planned\""));
    ck_assert(said(2, "\"held by an administrator\""));
}

TEST(nothing_is_said_of_a_job_that_the_next_survey_takes) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    scene.job(1).facts.mark.reset();
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scheduler->explain(1).find("held by") == std::string::npos);
}

TEST(a_job_that_reservations_leave_too_few_nodes_says_so) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    Request r = Scene::request();
    r.min_gpus = r.max_gpus = 8;
    scene.job(1, r).is_cut = true;
    scene.scheduler()->round();
    const std::string& told = scene.host.reasons.back().text;
    ck_assert_msg(told.starts_with("Arena: on the nodes that reservations leave it, no plan fits"),
                  "%s", told.c_str());
}

}  // namespace
