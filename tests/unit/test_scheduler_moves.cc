// SPDX-License-Identifier: GPL-2.0-or-later
// The scheduler with policy arena on a scripted host: running jobs are told to save their state
// when others make more of their GPUs, and never more often than the site allows.
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

constexpr double now_s = 100000;

/// One node of four GPUs. Job 1 is elastic, runs on all four and has weeks to go.
struct MovesScene : Scene {
    std::unique_ptr<Scheduler> plan;

    explicit MovesScene(std::int64_t max_gpus = 4) {
        config.policy = "arena";
        host.view.snapshot.time_s = now_s;
        node("n1", "a40", 4, 4);
        Request request = Scene::request();
        request.elastic = true;
        request.min_gpus = 1;
        request.max_gpus = max_gpus;
        request.steps = 1000000;
        job(1, request).time_limit_s = 365 * 86400.0;
        plan = scheduler();
        plan->round();
        ck_assert(called(host, "start 1 n1"));
        ck_assert_int_eq(host.last_shape.offer.grid.gpus(), 4);
        run(1, now_s - 5000);
    }
    JobView& view(JobId id) {
        const auto same = [&](const JobView& j) { return j.id == id; };
        return *std::find_if(host.view.jobs.begin(), host.view.jobs.end(), same);
    }
    /// The job has started in the shape that the host saw last.
    void run(JobId id, double start_s) {
        JobView& j = view(id);
        j.facts.state = HostJobState::running;
        j.facts.held = false;
        j.facts.mark->phase = Phase::started;
        j.offer_json = to_json(host.last_shape.offer);
        j.start_s = start_s;
        j.nodes = {0};
        j.nodes_open = true;
        host.view.snapshot.nodes[0].free_gpus -= host.last_shape.offer.grid.gpus();
        host.calls.clear();
    }
    /// Job 2 waits: it has only minutes to go.
    void short_job() {
        Request request = Scene::request();
        request.min_gpus = request.max_gpus = 2;
        request.steps = 10;
        job(2, request).time_limit_s = 600;
    }
    double iteration_s() { return host.last_shape.offer.estimate.iteration_s; }
};

TEST(a_long_job_gives_way_to_a_short_one) {
    MovesScene scene;
    scene.short_job();
    const double iteration_s = scene.iteration_s();
    scene.view(1).facts.mark->done = 70;
    scene.plan->round();
    ck_assert(called(scene.host, "move 1"));
    ck_assert_msg(called(scene.host, "release 2"),
                  "its GPUs are not free yet: it waits with its shape");
    ck_assert_int_eq(scene.host.last_shape.offer.grid.gpus(), 2);
    const RestartCost cost;
    ck_assert_int_eq(scene.host.last_done,
                     70 + static_cast<std::int64_t>((5000 - cost.seconds(4)) / iteration_s));
    ck_assert(scene.plan->explain(1).find("checkpointing") != std::string::npos);
}

TEST(what_two_moves_took_is_what_the_next_one_costs) {
    MovesScene scene;
    scene.short_job();
    const double iteration_s = scene.iteration_s();
    scene.view(1).facts.mark->took = {{20, 4}};
    scene.plan->round();
    const Json once = Json::parse(scene.plan->explain(1)).at("move");
    const RestartCost cost;
    ck_assert_double_eq(once.at("cost_s").get<double>(), cost.seconds(4));
    ck_assert(once.at("words").get<std::string>().find("its one move took 24 s") !=
              std::string::npos);
    ck_assert(Json::parse(scene.plan->explain(2)).contains("move") == false);
    scene.host.calls.clear();
    scene.view(1).facts.mark->took = {{20, 4}, {1500, 500}};  // one that is far off
    scene.plan->round();
    const double site_s = cost.seconds(4);
    ck_assert_double_eq(Json::parse(scene.plan->explain(1)).at("move").at("cost_s").get<double>(),
                        site_s);
    scene.view(1).facts.mark->took = {{20, 4}, {10, 2}};
    scene.plan->round();
    ck_assert_double_eq(Json::parse(scene.plan->explain(1)).at("move").at("cost_s").get<double>(),
                        24);
    const JobMark mark = *scene.view(1).facts.mark;
    scene.view(1).facts.mark->took = {{1500, 500}, {1600, 500}};
    scene.plan->round();
    const Json most = Json::parse(scene.plan->explain(1)).at("move");
    ck_assert_double_eq(most.at("cost_s").get<double>(), RestartCost::most_times * site_s);
    ck_assert(most.at("words").get<std::string>().find("the most that counts: 2 times what") !=
              std::string::npos);
    scene.view(1).facts.mark = mark;
    scene.plan->round();
    // So much less of its time since the start counts as none.
    ck_assert_int_eq(scene.host.last_done, static_cast<std::int64_t>((5000 - 24) / iteration_s));
}

// What it left would be the ordinary job's, which Slurm starts first.
TEST(nobody_makes_room_for_who_stands_behind_an_ordinary_job) {
    MovesScene scene;
    scene.short_job();
    scene.view(2).ordinary_start_s = now_s + 9000;
    scene.plan->round();
    ck_assert(!called(scene.host, "move 1"));
    scene.view(2).ordinary_start_s = INFINITY;
    scene.plan->round();
    ck_assert(called(scene.host, "move 1"));
}

// While it grew, its own nodes would be free for the other one: it does not, and leaves them.
TEST(who_runs_behind_an_ordinary_job_leaves_for_it) {
    MovesScene scene(8);
    scene.node("n2", "a40", 4, 4);
    OrdinaryJob& ordinary = scene.host.view.ordinary.emplace_back();
    ordinary.id = 9;
    ordinary.rank = ordinary.priority = scene.view(1).rank + 1;
    ordinary.time_limit_s = 3600;
    ordinary.nodes = 2;
    ordinary.per_node = "gres/gpu:a40:4";
    ordinary.node_set = scene.view(1).node_set;
    scene.plan->round();
    ck_assert(called(scene.host, "move 1"));
}

TEST(a_clock_that_is_set_back_moves_nobody) {
    MovesScene scene;
    scene.plan->round();
    ck_assert(scene.host.calls.empty());
    scene.host.view.snapshot.time_s = now_s - 7200;
    scene.host.clock_set_s = -7200;
    scene.plan->round();
    ck_assert_msg(scene.host.calls.empty(), "%s",
                  scene.host.calls.empty() ? "" : scene.host.calls[0].c_str());
}

TEST(nobody_is_moved_to_a_shape_that_a_limit_refused_it) {
    ClusterView view;
    BlockedOffers blocked;
    blocked.new_round(view);
    const Chosen own(Grid{"a40", 1, 2, 1}), larger(Grid{"a40", 1, 4, 1}),
        other(Grid{"a40", 2, 4, 1});
    std::vector<Offer> list(3);
    list[0].grid = own, list[1].grid = larger, list[2].grid = other;
    const auto offers = std::make_shared<const std::vector<Offer>>(list);
    const auto left = [&] { return blocked.to_move_to(1, offers, own).size(); };
    ck_assert_uint_eq(left(), 3);
    blocked.block(1, larger, "not allowed: QOSMaxGRESPerJob", true);
    blocked.block(1, other, "its nodes are busy");
    ck_assert_msg(left() == 2, "what is busy may be free when it is told to leave");
    view.steady_s = 1800;
    NodeState freed;
    freed.free_gpus = 4;
    view.snapshot.nodes = {freed};
    view.node_cpus = view.node_memory_mb = {0};
    blocked.new_round(view);
    ck_assert_msg(left() == 2, "GPUs that others leave lift no limit of its own");
    blocked.block(1, own, "not allowed: QOSMaxGRESPerJob", true);
    ck_assert_msg(left() == 2, "it has its own");
    view.steady_s = 3700;
    blocked.new_round(view);
    ck_assert_uint_eq(left(), 3);
}

TEST(while_it_saves_its_state_the_decision_stands) {
    MovesScene scene;
    scene.short_job();
    scene.plan->round();
    JobView& waiting = scene.view(2);
    waiting.facts.held = false;
    waiting.facts.mark->phase = Phase::released;
    waiting.offer_json = to_json(scene.host.last_shape.offer);
    scene.view(1).facts.mark->phase = Phase::checkpointing;
    scene.view(1).facts.mark->since = static_cast<std::int64_t>(now_s);
    scene.host.calls.clear();
    scene.plan->round();
    ck_assert_msg(scene.host.calls.empty(), "%s",
                  scene.host.calls.empty() ? "" : scene.host.calls[0].c_str());
    scene.view(1).facts.state = HostJobState::completing;
    scene.plan->round();
    ck_assert(scene.host.calls.empty());
    // It is back, and takes what it was to have; but not in the second of its end.
    JobView& back = scene.view(1);
    back.facts.state = HostJobState::pending;
    back.facts.held = true;
    back.facts.restart = 1;
    back.facts.mark = JobMark{Phase::held, 1, OtherHold::none, 0, 100, {}};
    back.nodes.clear();
    scene.host.view.snapshot.nodes[0].free_gpus = 4;
    scene.plan->round();
    ck_assert_msg(called(scene.host, "start 2 n1"), "no start of 2");
    ck_assert(!called(scene.host, "start 1 n1") && !called(scene.host, "release 1"));
    scene.run(2, now_s);
    scene.host.view.snapshot.time_s = now_s + 3;
    scene.plan->round();
    ck_assert(called(scene.host, "start 1 n1"));
    ck_assert_int_eq(scene.host.last_shape.offer.grid.gpus(), 2);
}

/// Two weeks are the bound of a job that was started once before.
TEST(a_requeue_does_not_make_a_job_young_again) {
    for (const double waited_days : {0.0, 13.0, 15.0}) {
        Scene scene;
        scene.config.policy = "arena";
        scene.config.order = "value";
        const double at_s = scene.host.view.snapshot.time_s = 1e8;
        scene.node("n1", "a40", 4, 4);
        for (const JobId id : {1U, 2U}) {
            Request request = Scene::request();
            request.min_gpus = request.max_gpus = 4;
            request.steps = id == 1 ? 1000000 : 10;
            JobView& job = scene.job(id, request);
            job.time_limit_s = id == 1 ? 365 * 86400.0 : 600;
            job.submit_s = job.eligible_s = at_s - 60;  // Slurm's, of the requeue
            job.facts.restart = job.facts.mark->restart = id == 1 ? 1 : 0;
        }
        if (waited_days > 0)
            scene.host.view.jobs[0].facts.mark->waited_since =
                static_cast<std::int64_t>(at_s - 86400 * waited_days);
        auto scheduler = scene.scheduler();
        scheduler->round();
        scene.host.view.snapshot.time_s += 3;  // not in the second of its end
        scheduler->round();
        const bool first = called(scene.host, "start 1 n1"),
                   second = called(scene.host, "start 2 n1");
        ck_assert_msg(first != second && first == (waited_days > 14), "%g days", waited_days);
    }
}

void expect_no_move(void (*change)(MovesScene&), const char* why) {
    MovesScene scene;
    scene.short_job();
    change(scene);
    scene.plan->round();
    ck_assert_msg(!called(scene.host, "move 1"), "%s", why);
}

TEST(what_may_not_be_moved_stays) {
    expect_no_move([](MovesScene& s) { s.view(1).start_s = now_s - s.config.cooldown_s + 1; },
                   "cool-down");
    expect_no_move(
        [](MovesScene& s) {
            const auto at = static_cast<std::int64_t>(now_s);
            s.view(1).facts.mark->moves = {at - 3000, at - 2000, at - 1000};
        },
        "moved often enough");
    expect_no_move([](MovesScene& s) { s.view(1).facts.mark->unsaved = 2; },
                   "it left twice without a checkpoint");
    expect_no_move([](MovesScene& s) { s.view(1).facts.mark->hold = OtherHold::user; },
                   "would not come back");
    expect_no_move([](MovesScene& s) { s.view(1).nodes_open = false; }, "its node is drained");
    expect_no_move([](MovesScene& s) { s.view(1).configuring = true; }, "its script has not begun");
    expect_no_move([](MovesScene& s) { s.view(1).facts.mark.reset(); },
                   "no mark says that Arena started it");
}

TEST(moves_of_more_than_an_hour_ago_do_not_count) {
    MovesScene scene;
    scene.short_job();
    const auto at = static_cast<std::int64_t>(now_s);
    scene.view(1).facts.mark->moves = {at - 9000, at - 8000, at - 3601, at - 2000};
    scene.plan->round();
    ck_assert(called(scene.host, "move 1"));
}

bool explains(MovesScene& scene, const char* words) {
    return scene.plan->explain(1).find(words) != std::string::npos;
}

std::size_t events_of(const MovesScene& scene, std::string_view state) {
    const JobPast* past = scene.plan->books().history.find(1);
    return past == nullptr ? 0
                           : static_cast<std::size_t>(std::count_if(
                                 past->events.begin(), past->events.end(),
                                 [&](const JobEvent& e) { return e.state == state; }));
}

TEST(a_move_without_a_checkpoint_is_told_and_two_are_the_last) {
    MovesScene scene;
    scene.short_job();
    scene.view(1).facts.mark->unsaved = 1;
    scene.host.left = {{.job = 1, .user_id = 0, .at_s = now_s - 100}};
    scene.plan->round();
    ck_assert_msg(called(scene.host, "move 1"), "once is no reason to leave it alone");
    ck_assert(explains(scene, "left without a checkpoint: goes on from its last one"));
    ck_assert_uint_eq(events_of(scene, "left"), 1);
    ck_assert(scene.host.leave_rules.requeue_code == 99 &&
              scene.host.leave_rules.grace_s == scene.config.checkpoint_grace_s);
    scene.plan->round();
    ck_assert_msg(events_of(scene, "left") == 1, "one event of one end");
    scene.view(1).facts.mark->unsaved = 2;
    scene.host.calls.clear();
    scene.plan->round();
    ck_assert(!called(scene.host, "move 1"));
    ck_assert(explains(scene, "Arena moves it no more by itself"));
    scene.view(1).comment = "arena:gpus=1-1";
    scene.plan->round();
    ck_assert_msg(called(scene.host, "checkpoint 1"), "its owner's wish is his to answer for");
    scene.view(1).facts.mark->unsaved = 0;
    scene.plan->round();
    ck_assert(!explains(scene, "without a checkpoint"));
}

TEST(a_job_that_is_requeued_at_the_deadline_left_without_a_checkpoint) {
    MovesScene scene;
    JobMark& mark = *scene.view(1).facts.mark;
    mark.phase = Phase::checkpointing;
    mark.since = static_cast<std::int64_t>(now_s - scene.config.checkpoint_grace_s) - 1;
    scene.plan->round();
    ck_assert(called(scene.host, "requeue 1"));
    ck_assert_uint_eq(events_of(scene, "left"), 1);
}

TEST(a_job_that_reports_goes_on_and_may_be_moved_again) {
    MovesScene scene;
    LeftReport report;
    report.job = 1;
    report.record = *scene.view(1).record.text;
    report.offer_json = scene.view(1).offer_json;
    report.report.iteration_s = scene.iteration_s();
    report.report.steps = 100;
    scene.plan->observe(report, now_s);
    ck_assert(called(scene.host, "progress 1"));
}

TEST(a_rigid_job_is_never_moved) {
    MovesScene scene;
    scene.short_job();
    Request request = Scene::request();
    request.max_gpus = 4;
    request.steps = 1000000;
    scene.view(1).record = format_record(request).value();
    scene.plan->round();
    ck_assert(!called(scene.host, "move 1"));
    ck_assert_msg(called(scene.host, "release 2"), "Slurm's backfill reserves for it");
}

TEST(a_job_that_was_just_requeued_keeps_its_place) {
    Scene scene;
    scene.config.policy = "fifo";
    scene.node("n1", "a40", 4, 4);
    Request request = Scene::request();
    request.min_gpus = request.max_gpus = 4;
    scene.job(1, request);
    scene.job(2);
    scene.host.view.jobs[0].facts.restart = 1;
    scene.host.view.jobs[0].facts.mark->restart = 1;
    auto scheduler = scene.scheduler();
    scheduler->round();
    for (const std::string& call : scene.host.calls)
        ck_assert_msg(!call.starts_with("start"), "%s", call.c_str());
    scene.host.view.snapshot.time_s += 3;
    scheduler->round();
    ck_assert(called(scene.host, "start 1 n1"));
}

}  // namespace
