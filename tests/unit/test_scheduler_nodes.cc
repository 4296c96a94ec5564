// SPDX-License-Identifier: GPL-2.0-or-later
// The scheduler on a scripted host whose nodes are slow: who avoids them, who is made to leave
// them, and that a slurmctld that ends between any two steps leaves nothing half done.
#include "plugin/sched/round/stages.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;

namespace {

constexpr double now_s = 1e8;
const std::string slow_n1 = "arena:v1 slow=1:compute:2.10 seen=2 since=99999000 until=100003000";

/// Three nodes of two GPUs.
struct NodesScene : Scene {
    std::unique_ptr<Scheduler> plan;

    NodesScene() {
        config.policy = "arena";
        host.view.snapshot.time_s = now_s;
        for (const char* name : {"n1", "n2", "n3"}) node(name, "a40", 2, 2);
    }
    void round() {
        if (!plan) plan = scheduler();
        plan->round();
    }
    /// Another slurmctld: what is remembered is gone.
    void restart() { plan.reset(); }
    JobView& pair(JobId id, bool elastic = false, std::int64_t steps = 1000000) {
        Request wanted = request();
        wanted.min_gpus = wanted.max_gpus = 2;
        wanted.elastic = elastic;
        wanted.steps = steps;
        return job(id, wanted);
    }
    JobView& view(JobId id) {
        const auto same = [&](const JobView& j) { return j.id == id; };
        return *std::find_if(host.view.jobs.begin(), host.view.jobs.end(), same);
    }
    /// It has started as the host was told last.
    void run(JobId id, NodeIndex node, double start_s = now_s - 5000) {
        JobView& j = view(id);
        j.facts.state = HostJobState::running;
        j.facts.held = false;
        j.facts.mark->phase = Phase::started;
        j.offer_json = to_json(host.started.at(id).offer);
        j.start_s = start_s;
        j.nodes = {node};
        j.nodes_open = true;
        host.view.snapshot.nodes[node].free_gpus -= 2;
        host.calls.clear();
    }
    /// An elastic job of two GPUs that runs on this node and has weeks to go.
    void elastic_on(JobId id, NodeIndex node) {
        pair(id, true);
        round();
        ck_assert(host.started.contains(id));
        run(id, node);
    }
    /// Slurm's records are as the host was told.
    void take_changes() {
        for (const auto& change : host.extras)
            for (NodeIndex i = 0; i < host.view.snapshot.nodes.size(); ++i)
                if (host.view.snapshot.nodes[i].name == change.node)
                    host.view.node_records[i].extra = change.after;
        host.extras.clear();
    }
    [[nodiscard]] bool started_on(JobId id, const std::string& node) const {
        return called(host, "start " + std::to_string(id) + " " + node);
    }
};

SlowVerdict verdict(JobId job, const std::string& node = "n1") {
    SlowVerdict v;
    v.job = job;
    v.node = node;
    v.device = 1;
    v.factor = 2.1;
    return v;
}

TEST(a_waiting_job_starts_elsewhere) {
    for (const char* policy : {"arena", "fifo"}) {
        NodesScene scene;
        scene.config.policy = policy;
        scene.host.view.node_records[0].extra = slow_n1;
        for (JobId id = 1; id <= 3; ++id) scene.pair(id);
        scene.round();
        ck_assert(!scene.started_on(1, "n1") && !scene.started_on(2, "n1"));
        ck_assert(scene.host.started.contains(1) && scene.host.started.contains(2));
        ck_assert_msg(called(scene.host, "release 3"), "it waits for one of the two");
        ck_assert_uint_eq(scene.host.last_shape.exclude.size(), 1);
        ck_assert_str_eq(scene.host.last_shape.exclude[0].c_str(), "n1");
        ck_assert(scene.plan->explain(3).find("n1: GPU 1 computes 2.1 times slower") !=
                  std::string::npos);
    }
}

TEST(a_released_job_is_written_anew_when_what_it_avoids_changes) {
    NodesScene scene;
    scene.config.policy = "fifo";
    for (JobId id = 1; id <= 4; ++id) scene.pair(id);
    scene.round();
    ck_assert(called(scene.host, "release 4"));
    ck_assert(scene.host.last_shape.exclude.empty());
    for (JobId id = 1; id <= 3; ++id) scene.run(id, id - 1);
    JobView& waits = scene.view(4);
    waits.facts.held = false;
    waits.facts.mark->phase = Phase::released;
    waits.offer_json = to_json(scene.host.last_shape.offer);
    scene.round();
    ck_assert_msg(scene.host.calls.empty(), "it has its shape");
    scene.host.view.node_records[0].extra = slow_n1;
    scene.round();
    ck_assert(called(scene.host, "release 4"));
    scene.host.calls.clear();
    scene.view(4).excluded = {0};
    scene.round();
    ck_assert_msg(scene.host.calls.empty(), "once");
    scene.host.view.node_records.clear();
    scene.round();
    ck_assert(called(scene.host, "release 4") && scene.host.last_shape.exclude.empty());
}

TEST(a_job_that_needs_an_avoided_node_gets_it) {
    for (const bool by_mark : {false, true}) {
        NodesScene scene;
        scene.node("m1", "a100", 2, 2);
        scene.node("m2", "a100", 2, 2);
        Request wanted = Scene::request();
        wanted.gpu_types = {"a100"};
        wanted.min_gpus = wanted.max_gpus = 4;
        JobView& job = scene.job(1, wanted);
        if (by_mark)
            job.facts.mark->avoid = {{"m1", static_cast<std::int64_t>(now_s) + 100}};
        else
            scene.host.view.node_records[3].extra = slow_n1;
        scene.round();
        ck_assert_msg(called(scene.host, "start 1 m1,m2"), "it would wait for ever");
        ck_assert(scene.host.last_shape.exclude.empty());
        ck_assert(scene.plan->explain(1).find("avoids") == std::string::npos);
    }
}

TEST(no_job_has_both_ends_of_a_slow_link) {
    for (const JobId id : {1U, 2U}) {
        NodesScene scene;
        const std::string link = " seen=2 since=99999000 until=100003000",
                          slow = "arena:v1 slow=*:communication:50.00 ";
        scene.host.view.node_records[0].extra = slow + "peer=n2" + link;
        scene.host.view.node_records[1].extra = slow + "peer=n1" + link;
        Request wanted = Scene::request();
        wanted.min_gpus = wanted.max_gpus = 4;
        scene.job(id, wanted);
        scene.pair(9);
        scene.round();
        ck_assert_msg(called(scene.host, id == 1 ? "start 1 n1,n3" : "start 2 n2,n3"),
                      "one of them, another one for another job");
        ck_assert_msg(scene.started_on(9, id == 1 ? "n2" : "n1"), "which one node's jobs may have");
        // With room elsewhere neither.
        NodesScene roomy;
        roomy.node("n4", "a40", 2, 2);
        roomy.host.view.node_records = scene.host.view.node_records;
        roomy.job(id, wanted);
        roomy.round();
        ck_assert(called(roomy.host, "start " + std::to_string(id) + " n3,n4"));
    }
}

/// A watched job leaves both; where it finds the next link slow, the node that both have.
TEST(a_job_that_leaves_a_slow_link_comes_to_healthy_nodes) {
    for (const char* slow : {"n1", "n2"}) {
        NodesScene scene;
        Request wanted = Scene::request();
        wanted.min_gpus = wanted.max_gpus = 4;
        wanted.elastic = true;
        wanted.steps = 1000000;
        scene.job(1, wanted);
        scene.round();
        ck_assert(called(scene.host, "start 1 n1,n2"));
        const std::vector<std::vector<NodeIndex>> places{{0, 1}, {0, 2}};
        for (const auto& nodes : places) {
            const auto name = [&](std::size_t i) {
                return scene.host.view.snapshot.nodes[nodes[i]].name;
            };
            if (name(0) != slow && name(1) != slow) break;
            scene.run(1, nodes[0]);
            scene.view(1).nodes = nodes;
            scene.host.view.snapshot.nodes[nodes[1]].free_gpus -= 2;
            LeftSlowReport left{.job = 1, .user = 1000, .gpus = 4, .report = {}, .voice = 1000};
            left.report.at = {name(0), 0};
            left.report.peer = {name(1), 0};
            left.report.cause = SlowCause::communication;
            left.report.factor = 50;
            left.report.action = SlowAction::s4;
            scene.plan->on_slow_report(left, now_s);
            scene.round();
            ck_assert(called(scene.host, "leave 1"));
            scene.take_changes();
            JobView& back = scene.view(1);
            back.facts.state = HostJobState::pending;
            back.facts.held = true;
            back.facts.mark = JobMark{Phase::held, 0, OtherHold::none, 0};
            back.facts.mark->avoid = scene.host.last_move.avoid;
            back.nodes.clear();
            for (NodeState& node : scene.host.view.snapshot.nodes) node.free_gpus = 2;
            scene.host.calls.clear();
            scene.round();
        }
        ck_assert_msg(
            called(scene.host, slow == std::string("n1") ? "start 1 n2,n3" : "start 1 n1,n3"),
            "%s is slow", slow);
    }
}

/// An elastic job on m1, the only node of its type.
void run_on_the_only_node(NodesScene& scene) {
    scene.node("m1", "a100", 2, 2);
    Request wanted = Scene::request();
    wanted.gpu_types = {"a100"};
    wanted.min_gpus = wanted.max_gpus = 2;
    wanted.elastic = true;
    wanted.steps = 1000000;
    scene.job(1, wanted);
    scene.round();
    ck_assert(scene.started_on(1, "m1"));
    scene.run(1, 3);
}

TEST(a_job_that_no_other_node_can_hold_stays) {
    NodesScene scene;
    run_on_the_only_node(scene);
    scene.plan->note_slow(verdict(1, "m1"), true, now_s);
    scene.round();
    ck_assert_msg(!called(scene.host, "leave 1"), "it would be back there at once");
    ck_assert(called(scene.host, "note_avoided 1"));
    ck_assert(scene.plan->explain(1).find("no other node can hold it") != std::string::npos);
    scene.view(1).facts.mark->avoid = scene.host.last_move.avoid;
    scene.take_changes();
    scene.host.calls.clear();
    scene.round();
    ck_assert_msg(scene.host.calls.empty(), "nor when its mark says so");
}

TEST(a_wish_that_was_not_carried_out_counts_for_the_next_start) {
    NodesScene scene;
    scene.elastic_on(1, 0);
    scene.host.view.snapshot.nodes[0].free_gpus = 2;
    scene.plan->note_slow(verdict(1), true, now_s);
    JobView& back = scene.view(1);  // its user has requeued it meanwhile
    back.facts.state = HostJobState::pending;
    back.facts.held = true;
    back.facts.mark->phase = Phase::held;
    back.nodes.clear();
    scene.round();
    ck_assert(scene.started_on(1, "n2"));
}

TEST(a_node_that_cannot_be_fenced_is_told_once) {
    NodesScene scene;
    scene.config.slowdown_quarantine = "drain";
    scene.host.view.node_records[0].extra = slow_n1;
    scene.host.next_fence = {ApplyOutcome::retry, "Slurm says no"};
    for (int i = 0; i < 3; ++i) scene.round();
    ck_assert_uint_eq(scene.host.errors.size(), 1);
    ck_assert_str_eq(scene.host.errors[0].c_str(), "node n1 not fenced: Slurm says no");
    scene.host.next_fence = {};
    scene.round();
    scene.host.next_fence = {ApplyOutcome::retry, "Slurm says no"};
    scene.round();
    ck_assert_uint_eq(scene.host.errors.size(), 2);
}

TEST(without_facts_no_call_is_made) {
    NodesScene scene;
    scene.elastic_on(1, 0);
    scene.round();
    ck_assert_msg(scene.host.calls.empty(), "%s",
                  scene.host.calls.empty() ? "" : scene.host.calls[0].c_str());
    ck_assert(scene.host.last_shape.exclude.empty());
    ck_assert(scene.plan->snapshot_json().find("slow") == std::string::npos);
    scene.host.view.node_records[1].extra = "rack=7";
    scene.round();
    ck_assert_msg(scene.host.calls.empty(), "nor with an administrator's own words");
}

TEST(a_job_that_asks_to_leave_a_node_leaves_it) {
    for (const char* policy : {"arena", "fifo"}) {
        NodesScene scene;
        scene.config.policy = policy;
        scene.elastic_on(1, 0);
        scene.view(1).nodes_open = false;    // drained
        scene.view(1).start_s = now_s - 10;  // within the cool-down
        scene.plan->note_slow(verdict(1), true, now_s);
        scene.round();
        ck_assert_uint_eq(scene.host.calls.size(), 2);
        ck_assert_str_eq(scene.host.calls[0].c_str(),
                         "extra n1 arena:v1 slow=1:compute:2.10 seen=1 by=1 since=100000000 "
                         "until=100003600");
        ck_assert_str_eq(scene.host.calls[1].c_str(), "leave 1");
        const Move& move = scene.host.last_move;
        ck_assert_str_eq(move.why.c_str(), "leaves n1: GPU 1 computes 2.1 times slower");
        ck_assert_str_eq(move.comment.c_str(), "slow=n1/1:compute:x2.10 action=S4");
        ck_assert(move.counts && (move.avoid == std::vector<AvoidedNode>{{"n1", 100003600}}));
        ck_assert(scene.plan->explain(1).find("checkpointing") != std::string::npos);
        // It is back: the node is free and nobody else avoids it.
        scene.take_changes();
        JobView& back = scene.view(1);
        back.facts.state = HostJobState::pending;
        back.facts.held = true;
        back.facts.mark = JobMark{Phase::held, 0, OtherHold::none, 0};
        back.facts.mark->avoid = move.avoid;
        back.nodes.clear();
        scene.host.view.snapshot.nodes[0].free_gpus = 2;
        scene.host.view.snapshot.nodes[2].free_gpus = 0;
        scene.host.calls.clear();
        scene.pair(2);
        scene.round();
        ck_assert(scene.started_on(1, "n2"));
        ck_assert_msg(scene.started_on(2, "n1"), "one job's verdict is not for others");
    }
}

void expect_stay(void (*change)(NodesScene&), const char* why_not) {
    NodesScene scene;
    scene.elastic_on(1, 0);
    change(scene);
    scene.plan->note_slow(verdict(1), true, now_s);
    scene.round();
    ck_assert_msg(!called(scene.host, "leave 1"), "%s", why_not);
    ck_assert_msg(called(scene.host, "note_avoided 1"), "%s", why_not);
    ck_assert_msg(scene.plan->explain(1).find(why_not) != std::string::npos, "%s",
                  scene.plan->explain(1).c_str());
    scene.take_changes();
    scene.view(1).facts.mark->avoid = scene.host.last_move.avoid;
    scene.host.calls.clear();
    scene.round();
    ck_assert_msg(scene.host.calls.empty(), "noted once: %s", why_not);
}

TEST(a_job_that_cannot_leave_has_it_noted) {
    expect_stay(
        [](NodesScene& s) {
            Request request = Scene::request();
            request.min_gpus = request.max_gpus = 2;
            s.view(1).record = format_record(request).value();
        },
        "it is not elastic");
    expect_stay(
        [](NodesScene& s) {
            const auto at = static_cast<std::int64_t>(now_s);
            s.view(1).facts.mark->moves = {at - 3000, at - 2000, at - 1000};
        },
        "it was moved often enough in this hour");
    expect_stay([](NodesScene& s) { s.view(1).facts.mark->hold = OtherHold::user; },
                "it is held and would not come back");
    expect_stay([](NodesScene& s) { s.view(1).configuring = true; }, "it has only just started");
}

TEST(what_a_mark_says_is_done_when_it_can_be) {
    NodesScene scene;
    scene.elastic_on(1, 0);
    scene.restart();
    scene.view(1).facts.mark->avoid = {{"n1", static_cast<std::int64_t>(now_s) + 100}};
    scene.round();
    ck_assert_str_eq(scene.host.last_move.why.c_str(), "leaves n1: it was asked to");
    NodesScene late;
    late.elastic_on(1, 0);
    late.view(1).facts.mark->avoid = {{"n1", static_cast<std::int64_t>(now_s)}};
    late.round();
    ck_assert_msg(late.host.calls.empty(), "its time is over");
}

TEST(a_job_on_a_quarantined_node_leaves_where_it_pays) {
    const auto leaves = [](void (*change)(NodesScene&)) {
        NodesScene scene;
        scene.elastic_on(1, 0);
        scene.host.view.node_records[0].extra = slow_n1;
        change(scene);
        scene.round();
        return called(scene.host, "leave 1");
    };
    ck_assert(leaves([](NodesScene&) {}));
    ck_assert_msg(leaves([](NodesScene& s) { s.view(1).nodes_open = false; }), "drained");
    ck_assert_msg(!leaves([](NodesScene& s) {
        Request request = Scene::request();
        request.min_gpus = request.max_gpus = 2;
        request.elastic = true;
        request.steps = 10;
        s.view(1).record = format_record(request).value();
        s.view(1).time_limit_s = 8000;
        s.host.view.node_records[0].extra = "arena:v1 slow=1:compute:1.10 seen=2";
    }),
                  "it has little left to do");
    ck_assert_msg(leaves([](NodesScene& s) {
                      s.host.view.node_records[0].extra = "arena:v1 slow=1:compute:1.10 seen=2";
                  }),
                  "little slower, but for weeks");
    ck_assert_msg(!leaves([](NodesScene& s) {
        for (NodeState& node : s.host.view.snapshot.nodes) node.free_gpus = 0;
    }),
                  "there is no room elsewhere");
    ck_assert_msg(!leaves([](NodesScene& s) { s.view(1).start_s = now_s - 10; }), "cool-down");
    ck_assert_msg(!leaves([](NodesScene& s) {
        s.host.view.node_records[0].extra = "arena:v1 slow=1:compute:2.10 seen=1";
    }),
                  "one job's verdict");
}

TEST(times_of_a_slow_node_teach_nothing) {
    for (const bool slow : {false, true}) {
        NodesScene scene;
        scene.elastic_on(1, 0);
        scene.view(1).start_s = now_s - 10;  // it stays meanwhile
        if (slow) scene.host.view.node_records[0].extra = "arena:v1 slow=1:compute:2.10 seen=1";
        scene.round();
        const Offer& ran = scene.host.started.at(1).offer;
        LeftReport left;
        left.job = 1;
        left.record = *scene.view(1).record.text;
        left.offer_json = to_json(ran);
        left.report.iteration_s = 2 * ran.estimate.iteration_s;
        left.report.steps = 100;
        scene.plan->observe(left, now_s);
        const bool counted = scene.plan->stats_json().find("\"reports\":1") != std::string::npos;
        ck_assert_msg(counted != slow, "%s", scene.plan->stats_json().c_str());
    }
}

TEST(times_of_a_job_in_an_open_event_teach_nothing) {
    NodesScene scene;
    scene.elastic_on(1, 0);
    scene.round();
    const Offer& ran = scene.host.started.at(1).offer;
    LeftSlowReport slow{.job = 1, .user = 0, .gpus = 2, .report = {}};
    slow.report.at = {"n1", 1};
    slow.report.factor = 2;
    scene.plan->on_slow_report(slow, now_s);
    LeftReport left;
    left.job = 1;
    left.record = *scene.view(1).record.text;
    left.offer_json = to_json(ran);
    left.report.iteration_s = 2 * ran.estimate.iteration_s;
    left.report.steps = 100;
    scene.plan->observe(left, now_s);
    ck_assert_msg(scene.plan->stats_json().find("\"reports\":1") == std::string::npos, "%s",
                  scene.plan->stats_json().c_str());
}

TEST(others_may_impose_a_move_that_does_not_count) {
    NodesScene scene;
    scene.elastic_on(1, 0);
    const auto at = static_cast<std::int64_t>(now_s);
    scene.view(1).facts.mark->moves = {at - 3000, at - 2000, at - 1000};
    Books books(scene.host, scene.config, load_hardware("").value(), builtin_calibration(),
                PlanLimits{});
    books.imposed[1] = {.why = "gives n1 back to infer by 14:05"};
    const Round round =
        intake(scene.host.collect([](auto...) { return false; }), books, [] { return false; });
    ck_assert_uint_eq(round.orders.size(), 1);
    ck_assert(round.orders[0].kind == Order::Kind::leave && !round.orders[0].move.counts);
}

/// A job's chief says it again until it is moved.
void play(NodesScene& scene, bool reports) {
    if (!scene.plan) scene.plan = scene.scheduler();
    if (reports && scene.view(1).facts.mark->phase == Phase::started)
        scene.plan->note_slow(verdict(1), true, now_s);
    scene.round();
    scene.take_changes();
    if (called(scene.host, "leave 1")) {
        scene.view(1).facts.mark->phase = Phase::checkpointing;
        scene.view(1).facts.mark->since = static_cast<std::int64_t>(now_s);
    }
}

TEST(a_slurmctld_that_ends_between_any_two_steps_leaves_nothing_half_done) {
    for (std::size_t steps = 0; steps <= 3; ++steps) {
        NodesScene scene;
        scene.elastic_on(1, 0);
        scene.host.stops_after = steps;
        play(scene, true);
        const std::size_t first = scene.host.calls.size();
        ck_assert_uint_eq(first, std::min<std::size_t>(steps, 2));
        scene.restart();
        scene.host.stops_after = SIZE_MAX;
        for (int i = 0; i < 3; ++i) play(scene, true);
        const auto& calls = scene.host.calls;
        ck_assert_int_eq(std::count(calls.begin(), calls.end(), "leave 1"), 1);
        ck_assert_str_eq(scene.host.view.node_records[0].extra.c_str(),
                         "arena:v1 slow=1:compute:2.10 seen=1 by=1 since=100000000 "
                         "until=100003600");
    }
}

TEST(marks_keep_what_a_job_avoids) {
    JobMark mark;
    add_avoided(mark, {{"n1", 100}, {"n2", 200}, {"bad name", 1}, {"", 1}});
    ck_assert_uint_eq(mark.avoid.size(), 2);
    ck_assert(parse_mark(format_mark(mark)) == mark);
    add_avoided(mark, {{"n1", 50}});
    ck_assert_msg(mark.avoid.back().node == "n1" && mark.avoid.back().until == 100, "the later");
    for (int i = 3; i < 9; ++i)
        add_avoided(mark, {{"n" + std::string(46, 'x') + std::to_string(i), 1700000000 + i}});
    ck_assert_uint_eq(mark.avoid.size(), JobMark::max_avoided);
    mark.phase = Phase::checkpointing;
    mark.restart = UINT32_MAX;
    mark.since = mark.waited_since = 1700000000;
    mark.done = INT64_MAX;
    mark.hold = OtherHold::admin;
    mark.moves.assign(JobMark::max_moves, 1700000000);
    ck_assert_msg(parse_mark(format_mark(mark)) == mark, "the longest one fits");
    ck_assert_uint_eq(next_mark(mark, Phase::held, 1, OtherHold::none, 1700000005).avoid.size(), 3);
    for (const char* text : {"avoid=n1", "avoid=n1@", "avoid=@5", "avoid=n1@x", "avoid=n;1@5",
                             "avoid=a@1,b@1,c@1,d@1,e@1"})
        ck_assert_msg(!parse_mark(std::string("v=1;phase=held;") + text), "%s", text);
    ck_assert(parse_mark("v=1;phase=held;restart=0;hold=none;since=1")->avoid.empty());
}

}  // namespace
