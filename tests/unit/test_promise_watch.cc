// SPDX-License-Identifier: GPL-2.0-or-later
// What people see of promises: who started before a promised job and why, what its owner is told of
// the promise and how often, and what is known to have broken it.
#include <algorithm>
#include <functional>
#include <utility>

#include "plugin/sched/promises/promise_file.h"
#include "plugin/sched/promises/promise_words.h"
#include "suite.h"

using namespace arena;

namespace {

/// Two nodes of four GPUs of one type, n1 with an Arena job of two GPUs that ends by 1600, n2 full
/// of an ordinary one for long; it is second 1000. Job 1 wants the whole of n1.
struct Scene {
    Snapshot now;
    Offers offers;
    PolicyOptions options;
    PromiseBook book{{}};
    PromiseWatch watch;

    Scene() {
        now.time_s = 1000;
        now.nodes = {{"n1", "a40", 4, 2, 64, 640000}, {"n2", "a40", 4, 0, 64, 640000}};
        now.node_sets = {{0, 1}};
        now.others = {{.job = 90, .end_s = 90000, .parts = {{1, 4, 4, 0}}}};
        options.order = QueueOrder::priority;
        options.restart = {0, 0, 0};
        options.window_s = 1;
        run(wait(9, 2, 600));
        job(9).start_s = 900;
        wait(1, 4, 600);
    }
    JobState& wait(JobId id, std::int64_t gpus, double time_limit_s) {
        JobState& job = now.jobs.emplace_back();
        job.id = id;
        job.priority = 100;
        job.submit_s = id;
        job.min_gpus = job.max_gpus = gpus;
        job.time_limit_s = time_limit_s;
        Offer offer;
        offer.grid = {"a40", 1, gpus, 1};
        offer.estimate.iteration_s = 1;
        offers[id] = {offer};
        return job;
    }
    void run(JobState& job) {
        job.phase = JobPhase::running;
        job.current = offers.at(job.id).front();
        job.start_s = now.time_s;
        job.nodes = {0};
    }
    JobState& job(JobId id) {
        return *std::find_if(now.jobs.begin(), now.jobs.end(),
                             [&](const JobState& j) { return j.id == id; });
    }
    void end(JobId id) {
        if (job(id).phase == JobPhase::running)
            now.nodes[0].free_gpus += job(id).current->grid.gpus();
        std::erase_if(now.jobs, [&](const JobState& j) { return j.id == id; });
    }
    /// A round `after_s` later, which starts one of the waiting jobs, or none.
    PromiseWatch::News round(double after_s, JobId starts = 0) {
        now.time_s += after_s;
        for (JobState& other : now.jobs) other.age_s += after_s;
        for (JobState& other : now.jobs)
            if (other.phase == JobPhase::running && other.time_limit_s > 0)
                other.time_limit_s = std::max(other.time_limit_s - after_s, 1.0);
        book.give(now, offers, options);
        if (starts != 0) run(job(starts));
        return watch.look(now, book, options.priority_step);
    }
    /// The first of the round's events; "": there is none.
    static std::string told(const PromiseWatch::News& news) {
        if (news.events.empty()) return "";
        return news.events.front().state + ": " + news.events.front().text;
    }
    Json shown(JobId id, bool all = true) {
        return promise_json({now, book, watch, options.priority_step}, id,
                            [&](JobId) { return all; });
    }
};

bool says(const std::string& text, const std::string& words) {
    return text.find(words) != std::string::npos;
}

TEST(a_promise_is_told_once_and_not_when_it_moves_earlier) {
    Scene scene;
    const std::string first = Scene::told(scene.round(0));
    ck_assert_str_eq(
        first.c_str(),
        "promised: ends by 1970-01-01 00:38:40 UTC at the latest; in Slurm's own order "
        "it would start at 1970-01-01 00:26:40 UTC with 4xa40 and run for 10.0 min, as is "
        "believed");
    ck_assert(scene.round(100).events.empty());
    scene.end(9);
    ck_assert(scene.round(100).events.empty());
    ck_assert(scene.book.find(1)->due_s < 2000);
}

TEST(who_starts_before_a_promised_job_is_kept_with_why) {
    Scene scene;
    scene.wait(2, 2, 300);
    scene.wait(3, 2, 3000).elastic = true;
    scene.wait(4, 1, 3000);
    ck_assert(scene.round(0).passed.empty());
    ck_assert(scene.watch.passings(1).empty());
    const auto news = scene.round(10, 2);
    ck_assert_uint_eq(scene.watch.passings(1).size(), 1);
    const Passing& passing = scene.watch.passings(1).front();
    ck_assert_uint_eq(passing.job, 2);
    ck_assert_msg(passing.at_s == 1010, "%g", passing.at_s);
    ck_assert_str_eq(passing.why.c_str(),
                     "ends by 1970-01-01 00:21:50 UTC by its limit, before the promised job needs "
                     "the nodes");
    ck_assert(says(news.passed.at(2), passing.why));
    (void)scene.round(10, 3);
    ck_assert_str_eq(scene.watch.passings(1).back().why.c_str(), "elastic: gives way");
    (void)scene.round(10, 4);
    ck_assert_str_eq(scene.watch.passings(1).back().why.c_str(),
                     "on GPUs that are not kept for the promised job");
    ck_assert_uint_eq(scene.shown(1)["passed"].size(), 3);
    ck_assert_uint_eq(scene.shown(1)["passed"][0]["job"].get<JobId>(), 2);
    ck_assert(scene.shown(1, false)["passed"][0]["job"].is_null());
}

TEST(one_that_starts_as_soon_as_it_comes_is_seen_once) {
    Scene scene;
    (void)scene.round(0);
    scene.wait(2, 2, 300);
    ck_assert_uint_eq(scene.round(10, 2).passed.size(), 1);
    ck_assert(scene.round(0).passed.empty());
    ck_assert_uint_eq(scene.watch.passings(1).size(), 1);
}

TEST(a_job_that_stands_before_it_does_not_pass_it) {
    Scene scene;
    scene.wait(2, 2, 300).priority = 1000;
    (void)scene.round(0);
    ck_assert(scene.round(10, 2).passed.empty());
    ck_assert(scene.watch.passings(1).empty());
}

TEST(who_starts_on_gpus_that_it_could_not_have_does_not_pass_it) {
    Scene scene;
    scene.job(1).gpu_types = {"a100"};
    scene.wait(2, 2, 300);
    (void)scene.round(0);
    ck_assert(scene.round(10, 2).passed.empty());
    ck_assert(scene.watch.passings(1).empty());
}

TEST(the_last_few_are_kept) {
    Scene scene;
    for (JobId id = 2; id < 10; ++id) scene.wait(10 + id, 1, 10);
    (void)scene.round(0);
    for (JobId id = 2; id < 10; ++id) {
        (void)scene.round(1, 10 + id);
        scene.end(10 + id);
    }
    const auto& passings = scene.watch.passings(1);
    ck_assert_uint_eq(passings.size(), PromiseWatch::most_passings);
    ck_assert_uint_eq(passings.back().job, 19);
    ck_assert_uint_eq(passings.front().job, 15);
}

TEST(later_because_of_others_before_it_is_told) {
    Scene scene;
    (void)scene.round(0);
    scene.wait(2, 4, 600).priority = 1000;
    ck_assert(scene.round(10).events.front().job == 2);  // not so soon
    const auto news = scene.round(PromiseWatch::quiet_s);
    ck_assert_uint_eq(news.events.size(), 1);
    ck_assert_msg(Scene::told(news).starts_with("promise moved: others stand before it now: ends"),
                  "%s", Scene::told(news).c_str());
    ck_assert(scene.round(PromiseWatch::quiet_s).events.empty());
}

TEST(a_promise_that_goes_to_another_of_the_step_is_told) {
    Scene scene;
    (void)scene.round(0);
    scene.wait(2, 4, 600).submit_s = 0.5;
    const auto news = scene.round(PromiseWatch::quiet_s);
    ck_assert_uint_eq(news.events.size(), 2);
    const std::string told = Scene::told(news);
    ck_assert_str_eq(told.c_str(), "promise taken back: others stand before it now");
    const Json behind = scene.shown(1);
    ck_assert_uint_eq(behind["behind"].get<JobId>(), 2);
    ck_assert(behind["same_step"].get<bool>());
    ck_assert(says(behind["words"].get<std::string>(), "JobId=2 stands first of its step"));
    ck_assert(scene.shown(1, false)["behind"].is_null());
    ck_assert(!says(scene.shown(1, false).dump(), "JobId"));
    ck_assert(scene.round(PromiseWatch::quiet_s).events.empty());
}

TEST(behind_a_job_of_another_step_says_so) {
    Scene scene;
    scene.wait(2, 4, 600).priority = 50;
    scene.wait(3, 4, 600).priority = 49;
    scene.book = PromiseBook({.depth = 1});
    (void)scene.round(0);
    ck_assert(!scene.shown(3)["same_step"].get<bool>());
    ck_assert_uint_eq(scene.shown(3)["behind"].get<JobId>(), 1);
    ck_assert(scene.shown(9).is_null());
}

/// Job 1 is promised, `meanwhile` happens, and the job starts long after it should have.
std::string why_broken(const std::function<void(Scene&)>& meanwhile, Scene& scene) {
    (void)scene.round(0);
    meanwhile(scene);
    (void)scene.round(10);
    (void)scene.round(1490);
    ck_assert(scene.round(1, 1).events.empty());
    const std::string told = Scene::told(scene.round(1));
    ck_assert(scene.round(PromiseWatch::quiet_s).events.empty());
    return told;
}

TEST(what_broke_a_promise_is_told) {
    Scene down, raised, other;
    std::string told = why_broken([](Scene& s) { s.now.nodes[1].up = false; }, down);
    ck_assert_str_eq(told.c_str(),
                     "promise broken: started too late to end by 1970-01-01 00:38:40 UTC: nodes "
                     "went down");
    ck_assert_int_eq(down.watch.broken().nodes_down, 1);
    told = why_broken([](Scene& s) { s.job(9).time_limit_s += 3600; }, raised);
    ck_assert_msg(told.ends_with(": a limit was raised"), "%s", told.c_str());
    ck_assert_int_eq(raised.watch.broken().limits_raised, 1);
    told = why_broken([](Scene&) {}, other);
    ck_assert_msg(told.ends_with(": its nodes were not free in time"), "%s", told.c_str());
    const Json counts = promise_counts_json(other.book, other.watch);
    ck_assert_int_eq(counts["given"].get<int>(), 1);
    ck_assert_int_eq(counts["broken"].get<int>(), 1);
    ck_assert_int_eq(counts["broken_by"]["others"].get<int>(), 1);
}

/// What happened before the promise was given did not break it.
TEST(only_what_comes_after_a_promise_breaks_it) {
    Scene scene;
    scene.now.nodes[1].up = false;
    scene.job(9).time_limit_s += 100;
    const std::string told = why_broken([](Scene&) {}, scene);
    ck_assert_msg(told.ends_with(": its nodes were not free in time"), "%s", told.c_str());
}

// Only its limit says how much work it has: with twice the GPUs that is half as long, and the limit
// stays.
TEST(a_faster_plan_does_not_make_it_more_work) {
    Scene scene;
    Offer slower = scene.offers.at(1).front(), faster = slower;
    slower.grid = {"a40", 1, 2, 1};
    faster.estimate.iteration_s = 0.5;
    scene.offers[1] = {slower, faster};
    scene.job(1).min_gpus = 2;
    scene.job(9).time_limit_s = 10;
    (void)scene.round(0);
    ck_assert_double_eq_tol(scene.book.find(1)->end_s, 1310, 1e-6);
    scene.end(9);
    (void)scene.round(10);
    scene.job(1).current = faster;
    scene.job(1).phase = JobPhase::running;
    scene.job(1).start_s = scene.now.time_s;
    scene.job(1).nodes = {0};
    arena::test::assert_text(Scene::told(scene.round(1)), "");
    ck_assert_int_eq(scene.book.counts().kept, 1);
}

TEST(a_job_that_starts_in_time_is_told_nothing_more) {
    Scene scene;
    (void)scene.round(0);
    scene.end(9);
    ck_assert(scene.round(10, 1).events.empty());
    ck_assert(scene.round(1).events.empty());
    ck_assert_int_eq(scene.book.counts().kept, 1);
    ck_assert(scene.watch.passings(1).empty());
}

/// Another slurmctld, to which the file's text is all that is left of the first.
void restart(Scene& scene) {
    const auto kept = parse_promises(format_promises(scene.book.keep()));
    ck_assert_msg(kept.ok(), "%s", kept.ok() ? "" : kept.error().message().c_str());
    scene.book = PromiseBook({});
    scene.watch = PromiseWatch();
    scene.watch.recall(*kept);
    scene.book.take_over(*kept);
}

TEST(a_promise_keeps_with_which_of_two_plans_of_a_grid_it_is) {
    PromiseBook::Kept kept;
    kept.promises[1].grid = Chosen(Grid{"gb200", 4, 4, 1});
    kept.promises[1].grid.segment = 2;
    std::string text = format_promises(kept);
    const auto read = parse_promises(text);
    ck_assert(read && read->promises == kept.promises);
    const std::string segment = "\"segment\":2,";
    ck_assert(text.find(segment) != std::string::npos);
    text.erase(text.find(segment), segment.size());
    const auto older = parse_promises(text);  // of a version that wrote none
    ck_assert(older && older->promises.at(1).grid == Chosen(Grid{"gb200", 4, 4, 1}));
}

/// An elastic job starts in time, and `by` makes it leave; it has done `done` of its 600 iterations
/// when it starts again, `later_s` after its first start. What its owner is told then.
std::string told_again(Departure by, double done, double later_s, Scene& scene,
                       const std::function<void(Scene&)>& meanwhile = {}) {
    scene.job(1).elastic = true;
    scene.job(1).remaining_iterations = 600;
    (void)scene.round(0);
    scene.end(9);
    (void)scene.round(10, 1);
    (void)scene.round(1);
    ck_assert_int_eq(scene.book.counts().kept, 1);
    scene.book.note_departure(1, by, scene.now.time_s);
    scene.watch.note_departure(1, by);
    (void)scene.round(1);
    scene.job(1).phase = JobPhase::pending;
    scene.job(1).nodes.clear();
    if (meanwhile) meanwhile(scene);
    (void)scene.round(1);
    ck_assert(scene.job(1).due_s > 0);
    (void)scene.round(later_s);
    scene.job(1).done_iterations = done;
    scene.job(1).remaining_iterations = 600 - done;
    ck_assert(scene.round(1, 1).events.empty());
    const std::string told = Scene::told(scene.round(1));
    ck_assert(scene.round(PromiseWatch::quiet_s).events.empty());
    return told;
}

TEST(a_promise_that_a_slow_node_or_a_reclaim_breaks_says_so) {
    Scene slow, back, moved;
    std::string told = told_again(Departure::slow_node, 0, 1600, slow);
    ck_assert_msg(told.starts_with("promise broken: started again too late to end by ") &&
                      told.ends_with(" UTC: it has left a slow node"),
                  "%s", told.c_str());
    ck_assert_int_eq(slow.watch.broken().slow_nodes, 1);
    ck_assert(slow.book.counts() == (PromiseCounts{1, 0, 1}));
    ck_assert(says(slow.shown(1)["words"].get<std::string>(),
                   ", and started too late for that, for it has left a slow node"));
    told = told_again(Departure::reclaim, 0, 1600, back);
    ck_assert_msg(told.ends_with(" UTC: it gave lent nodes back"), "%s", told.c_str());
    ck_assert_int_eq(back.watch.broken().nodes_returned, 1);
    told = told_again(Departure::move, 0, 1600, moved);
    ck_assert_msg(told.ends_with(": its nodes were not free in time"), "%s", told.c_str());
    ck_assert_int_eq(promise_counts_json(moved.book, moved.watch)["broken_by"]["slow_nodes"], 0);
}

TEST(who_leaves_its_nodes_and_ends_in_time_all_the_same_breaks_nothing) {
    Scene soon, nearly_done;
    arena::test::assert_text(told_again(Departure::slow_node, 0, 10, soon), "");
    ck_assert(soon.book.counts() == (PromiseCounts{1, 1, 0}));
    // So late that all of its work would end too late; what is left of it does not.
    arena::test::assert_text(told_again(Departure::reclaim, 550, 580, nearly_done), "");
    ck_assert(nearly_done.book.counts() == (PromiseCounts{1, 1, 0}));
}

TEST(rounds_that_do_not_see_a_job_on_its_way_do_not_forget_its_promise) {
    Scene scene;
    const std::string told = told_again(Departure::reclaim, 0, 1600, scene, [](Scene& s) {
        const std::vector<JobState> jobs = std::exchange(s.now.jobs, {});
        (void)s.round(1);
        s.book.drop_unseen([](JobId job) { return job == 1; });
        s.now.jobs = jobs;
    });
    ck_assert_msg(told.ends_with(" UTC: it gave lent nodes back"), "%s", told.c_str());
    ck_assert(scene.book.counts() == (PromiseCounts{1, 0, 1}));
    scene.book.drop_unseen([](JobId) { return false; });
    ck_assert(scene.book.find(1) == nullptr);
}

TEST(a_departure_is_remembered_by_the_next_slurmctld) {
    Scene scene;
    const std::string told =
        told_again(Departure::reclaim, 0, 1600, scene, [](Scene& s) { restart(s); });
    ck_assert_msg(told.ends_with(" UTC: it gave lent nodes back"), "%s", told.c_str());
    ck_assert(scene.book.counts() == (PromiseCounts{1, 0, 1}));
}

TEST(a_promise_does_not_move_later_because_the_job_was_told_to_leave) {
    Scene scene;
    double due_s = 0;
    const std::string told = told_again(Departure::slow_node, 0, 1600, scene, [&](Scene& s) {
        due_s = s.book.find(1)->due_s;
        s.wait(2, 4, 600).priority = 1000;
    });
    ck_assert(scene.book.find(1)->due_s == due_s);
    ck_assert_int_eq(scene.watch.broken().slow_nodes, 1);
}

TEST(who_stands_before_it_because_of_a_slow_node_is_said) {
    Scene scene;
    scene.wait(2, 2, 600).priority = 1000;
    (void)scene.round(0, 2);
    (void)scene.round(1);
    scene.watch.note_departure(2, Departure::slow_node);
    (void)scene.round(1);
    scene.job(2).phase = JobPhase::pending;
    scene.job(2).min_gpus = scene.job(2).max_gpus = 4;
    scene.offers[2] = scene.offers.at(1);
    const auto news = scene.round(PromiseWatch::quiet_s);
    const auto of_job = std::find_if(news.events.begin(), news.events.end(),
                                     [](const auto& event) { return event.job == 1; });
    ck_assert(of_job != news.events.end());
    ck_assert_msg(of_job->text.starts_with("others stand before it now, one of which has left a "
                                           "slow node: ends by"),
                  "%s", of_job->text.c_str());
}

// A limit of 190 years and iterations of 5 ms: no reason to forget what others were promised.
TEST(a_job_of_very_many_iterations_leaves_the_file_readable) {
    Scene scene;
    Offer fast = scene.offers.at(1).front();
    fast.estimate.iteration_s = 0.005;
    scene.offers[1] = {fast};
    scene.job(1).time_limit_s = 6e9;
    scene.now.time_s = 1e9;
    (void)scene.round(0);
    ck_assert(scene.book.find(1) != nullptr && scene.book.find(1)->iterations > 1e12);
    restart(scene);
}

TEST(a_promise_outlives_slurmctld_and_is_not_later_then) {
    Scene scene;
    (void)scene.round(0);
    const double due_s = scene.book.find(1)->due_s;
    restart(scene);
    // Its jobs are not planned yet.
    const std::vector<JobState> jobs = std::exchange(scene.now.jobs, {});
    ck_assert(scene.round(10).events.empty());
    ck_assert(scene.book.find(1) != nullptr && scene.book.find(1)->due_s == due_s);
    scene.book.drop_unseen([](JobId job) { return job == 1; });
    scene.now.jobs = jobs;
    // What runs lasts longer than was known: a new promise would be later.
    scene.job(9).time_limit_s += 3000;
    ck_assert(scene.round(10).events.empty());
    ck_assert(scene.book.find(1)->due_s == due_s && scene.job(1).due_s == due_s);
    ck_assert_int_eq(scene.book.counts().given, 1);
}

TEST(a_promise_is_for_one_job_and_goes_with_it) {
    Scene scene;
    (void)scene.round(0);
    restart(scene);
    scene.book.drop_unseen([](JobId) { return false; });
    ck_assert(scene.book.find(1) == nullptr && scene.book.take_changed());
    (void)scene.round(10);
    const double given_s = scene.book.find(1)->given_s;
    restart(scene);
    scene.job(1).submit_s = 900;
    (void)scene.round(10);
    ck_assert(scene.book.find(1)->given_s > given_s);
}

TEST(what_passes_while_slurmctld_is_away_is_said) {
    Scene scene;
    (void)scene.round(0);
    restart(scene);
    scene.end(9);
    (void)scene.round(1000);
    ck_assert(says(scene.shown(1)["words"].get<std::string>(),
                   "was to end by 1970-01-01 00:38:40 UTC, for which 4xa40 had to start by"));
    const std::string told = Scene::told([&] {
        scene.run(scene.job(1));
        return scene.round(1);
    }());
    ck_assert_msg(says(told, "slurmctld was away"), "%s", told.c_str());
    ck_assert_int_eq(scene.watch.broken().away, 1);
}

TEST(a_file_that_is_none_is_refused) {
    for (const char* text : {"", "[]", "{}", R"({"schema_version":2,"looked_s":1,"promises":[]})",
                             R"({"schema_version":1,"looked_s":1,"promises":[{"job":0}]})",
                             R"({"schema_version":1,"looked_s":1,"promises":[1]})"})
        ck_assert_msg(!parse_promises(text).ok(), "%s", text);
}

}  // namespace
