// SPDX-License-Identifier: GPL-2.0-or-later
// One scheduler on a scripted host: no Slurm, real planner, real policy, real store in a scratch
// directory. Each test plays a few rounds and looks at the calls that the host received.
#include <sqlite3.h>

#include <algorithm>

#include "base/json.h"
#include "plugin/sched/host/other_topology.h"
#include "plugin/sched/round/launch.h"
#include "plugin/sched/round/running.h"
#include "policy/replay.h"
#include "scripted_host.h"
#include "suite.h"

using namespace arena;
using arena::test::must;

namespace {

TEST(a_job_starts_on_free_gpus_with_its_plan) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    scene.job(1);
    scene.scheduler()->round();
    ck_assert(called(scene.host, "start 1 n1"));
    const Shape& shape = scene.host.last_shape;
    ck_assert_int_eq(shape.tasks_per_node, shape.offer.grid.gpus_per_node);
    ck_assert_int_eq(shape.offer.plan.gpus(), shape.offer.grid.gpus());
    ck_assert_int_le(shape.offer.grid.gpus(), 2);
    ck_assert_int_eq(shape.cpus_per_task, 4);
}

TEST(a_job_behind_ordinary_ones_waits_at_its_place) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    scene.job(1).ordinary_start_s = 0;
    scene.scheduler()->round();
    ck_assert(called(scene.host, "release 1"));
    ck_assert(!called(scene.host, "start 1 n1"));
}

TEST(a_full_cluster_gives_one_reservation_and_reasons) {
    Scene scene;
    scene.node("n1", "a40", 4, 0);
    scene.job(1);
    scene.job(2);
    scene.scheduler()->round();
    ck_assert(called(scene.host, "release 1"));
    ck_assert(!called(scene.host, "release 2"));
    ck_assert_uint_eq(scene.host.reasons.size(), 1);
    ck_assert_int_eq(scene.host.reasons[0].job, 2);
}

TEST(a_job_that_waits_with_its_shape_is_left_alone_and_taken_back_when_passed_over) {
    Scene scene;
    scene.node("n1", "a40", 4, 0);
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    JobView& job = scene.host.view.jobs[0];
    job.facts.held = false;
    job.facts.mark->phase = Phase::released;
    job.offer_json = to_json(scene.host.last_shape.offer);
    scene.host.calls.clear();
    scheduler->round();
    ck_assert(scene.host.calls.empty());
    JobView& urgent = scene.job(2);  // somebody more important takes the one reservation
    urgent.priority = urgent.rank = 2e6;
    scheduler->round();
    ck_assert(called(scene.host, "hold 1"));
    ck_assert(called(scene.host, "release 2"));
}

TEST(a_job_whose_shapes_slurm_refuses_is_tried_less_and_less_often) {
    Scene scene;
    auto scheduler = scene.scheduler();
    const Grid first = scene.refused_start(*scheduler, {ApplyOutcome::retry, "no node has it"});
    scene.host.calls.clear();
    scheduler->round();
    ck_assert(scene.host.calls.empty());  // not at once
    scene.host.view.snapshot.time_s += 2;
    scheduler->round();
    ck_assert(!(scene.host.last_shape.offer.grid == first));
    for (int second = 0; second < 3600; ++second) {
        scene.host.view.snapshot.time_s += 1;
        scheduler->round();
        ck_assert(scene.host.reasons.back().text == "Arena: no node has it");
    }
    // 3,600 rounds; 1 + 2 + 4 + ... + 1024 s of rest are eleven tries.
    ck_assert_int_le(static_cast<int>(scene.host.calls.size()), 12);
    ck_assert_int_ge(static_cast<int>(scene.host.calls.size()), 1);
    ck_assert_int_eq(static_cast<int>(scene.host.errors.size()), 1);
    ck_assert(scene.host.errors[0].find("no node has it") != std::string::npos);
}

TEST(memory_is_asked_for_as_its_user_asked) {
    const auto shape_of = [](const std::function<void(Request&)>& ask) {
        Scene scene;
        scene.host.view.memory_tracked = true;
        scene.node("n1", "a40", 4, 4);  // 4 CPUs and 16,000 MB for each GPU
        Request r = Scene::request();
        r.min_gpus = r.max_gpus = 2;
        ask(r);
        scene.job(1, r);
        scene.scheduler()->round();
        return scene.host.last_shape;
    };
    const auto mb = [&](const std::function<void(Request&)>& ask) {
        return shape_of(ask).memory_mb_per_node;
    };
    ck_assert_int_eq(mb([](Request&) {}), 32000);
    ck_assert_int_eq(mb([](Request& r) { r.mem_per_gpu_mb = 1000; }), 2000);
    ck_assert_int_eq(mb([](Request& r) { r.mem_per_node_mb = 50000; }), 50000);  // two GPUs or four
    ck_assert_int_eq(mb([](Request& r) { r.whole_memory = true; }), 0);  // Slurm's record has it
    const Shape by_cpu = shape_of([](Request& r) { r.mem_per_cpu_mb = 8000; });
    ck_assert_int_eq(by_cpu.memory_mb_per_cpu, 8000);
    ck_assert_int_eq(by_cpu.cpus_per_task * by_cpu.tasks_per_node,
                     4);  // as many as the even share pays for
    ck_assert_int_eq(
        shape_of([](Request& r) { r.mem_per_cpu_mb = 8000, r.cpus_per_gpu = 1; }).cpus_per_task, 1);
    // More than a node has is nowhere, and nobody asks Slurm for it.
    ck_assert_int_eq(shape_of([](Request& r) { r.mem_per_node_mb = 64001; }).job, 0);
    ck_assert_int_eq(shape_of([](Request& r) { r.mem_per_node_mb = 64000; }).job, 1);
}

/// Three GPUs free on n1 and one on n2, of 4 CPUs and 16,000 MB each.
JobView& job_for_pieces(Scene& scene, const std::string& launcher = "env") {
    scene.host.view.memory_tracked = true;
    scene.node("n1", "a40", 4, 3);
    scene.node("n2", "a40", 4, 1);
    Request r = Scene::request();
    r.min_gpus = r.max_gpus = 4;
    r.launcher = launcher;
    r.pin = must(parse_plan_pin("pp1,tp1"));
    return scene.job(1, r);
}

TEST(a_job_starts_on_pieces_that_differ_with_what_goes_with_each_gpu) {
    Scene by_gpu;
    job_for_pieces(by_gpu);
    by_gpu.scheduler()->round();
    ck_assert(called(by_gpu.host, "start 1 n1,n2"));
    Shape shape = by_gpu.host.last_shape;
    ck_assert(shape.offer.grid.split == (std::vector<std::int64_t>{3, 1}));
    ck_assert_int_eq(shape.tasks(), 4);
    ck_assert_int_eq(shape.cpus_per_task, 4);
    ck_assert_int_eq(shape.cpus_per_gpu, 0);
    ck_assert_int_eq(shape.memory_mb_per_gpu, 16000);
    ck_assert_int_eq(shape.memory_mb_per_node, 0);
    ck_assert(shape.admin_comment.find("grid=3+1xa40 ") != std::string::npos);
    Scene by_node;
    job_for_pieces(by_node, "torchrun");
    by_node.scheduler()->round();
    ck_assert(called(by_node.host, "start 1 n1,n2"));
    shape = by_node.host.last_shape;
    ck_assert_int_eq(shape.tasks(), 2);
    ck_assert_int_eq(shape.tasks_per_node, 1);
    ck_assert_int_eq(shape.cpus_per_gpu, 4);
    Scene alike;
    job_for_pieces(alike, "lightning");
    alike.scheduler()->round();
    ck_assert(!called(alike.host, "start 1 n1,n2"));
}

/// Released with pieces, Slurm would put it on whatever nodes: it has an equal layout.
TEST(a_job_that_may_not_start_yet_is_not_released_with_pieces) {
    Scene scene;
    job_for_pieces(scene).ordinary_start_s = 0;
    scene.scheduler()->round();
    for (const std::string& call : scene.host.calls)
        ck_assert_msg(!call.starts_with("start"), "%s", call.c_str());
    ck_assert(called(scene.host, "release 1"));
    ck_assert(!scene.host.last_shape.offer.grid.is_uneven());
}

/// Two racks of four free nodes, under a Slurm that knows segments or not.
struct RackScene : Scene {
    explicit RackScene(bool knows) {
        config.gpu_types.push_back({"gb200", "GB200-NVL72"});
        host.has_segments = knows;
        SwitchTable blocks;
        for (int n = 0; n < 8; ++n) {
            node("n" + std::to_string(n), "gb200", 4, 4);
            host.view.snapshot.nodes.back().leaf = blocks.add({"b" + std::to_string(n / 4)});
        }
        host.view.snapshot.switches = blocks.take();
        host.view.snapshot.topology = NetworkKind::block;
    }
    /// Of 24 GPUs the plan is of segments.
    JobView& wants(JobId id, std::int64_t min_gpus, std::int64_t max_gpus) {
        Request r = request();
        r.global_batch = 48;
        r.min_gpus = min_gpus;
        r.max_gpus = max_gpus;
        return job(id, r);
    }
    /// Job 1 has been started with that, on these nodes.
    void runs(const Offer& ran, std::vector<NodeIndex> nodes) {
        JobView& job = host.view.jobs[0];
        job.facts.state = HostJobState::running;
        job.facts.held = false;
        job.facts.mark->phase = Phase::started;
        job.offer_json = to_json(ran);
        job.start_s = 1000;
        for (const NodeIndex n : nodes) host.view.snapshot.nodes[n].free_gpus = 0;
        job.nodes = std::move(nodes);
    }
    /// It says of itself that it is half as slow again as estimated. What the log says then.
    std::string reports(Scheduler& scheduler, const Offer& ran) {
        LeftReport left;
        left.job = 1;
        left.record = *host.view.jobs[0].record.text;
        left.offer_json = to_json(ran);
        left.report.iteration_s = 1.5 * ran.estimate.iteration_s;
        left.report.steps = 100;
        scheduler.observe(left, 2000);
        return host.log.back();
    }
};

/// A plan that needs parts of racks whole is no plan of a job that Slurm starts where Slurm cannot
/// be asked to keep them whole: there the job has one that needs none.
TEST(a_job_is_released_with_parts_of_racks_only_to_a_slurm_that_knows_segments) {
    for (const bool knows : {true, false})
        for (const std::int64_t most : {24, 32}) {
            RackScene scene(knows);
            scene.wants(1, 24, most).ordinary_start_s = 0;
            scene.scheduler()->round();
            ck_assert_msg(called(scene.host, "release 1"), "knows %d", knows);
            ck_assert_int_eq(scene.host.last_shape.offer.segment > 1, knows);
            for (const std::string& call : scene.host.calls)
                ck_assert_msg(!call.starts_with("start"), "%s", call.c_str());
        }
}

/// Five GPUs, which no nodes of four give equally.
TEST(a_job_whose_pieces_slurm_cannot_give_takes_no_nodes_from_others) {
    for (const bool behind : {true, false}) {
        Scene scene;
        scene.node("n1", "a40", 4, 4);
        scene.node("n2", "a40", 4, 4);
        Request r = Scene::request();
        r.global_batch = 40;
        r.min_gpus = r.max_gpus = 5;
        r.pin = must(parse_plan_pin("pp1,tp1"));
        JobView& job = scene.job(1, r);
        if (behind)
            job.ordinary_start_s = 0;
        else
            job.slots = {{"main", {}, true}};  // as with a --time-min that the partition is for
        r.min_gpus = r.max_gpus = 8;
        scene.job(2, r);
        scene.scheduler()->round();
        ck_assert_msg(scene.host.started.contains(2), "behind %d", behind);
        ck_assert(!scene.host.started.contains(1) && !called(scene.host, "release 1"));
        const std::string told = behind ? "waits behind an ordinary job" : "keeps neither unequal";
        ck_assert(scene.host.reasons.at(0).text.find(told) != std::string::npos);
    }
}

/// Three nodes of each rack are free, and no two pairs of a rack with a third: from the start to
/// what the job reports it is the plan that needs no rack.
TEST(a_job_of_a_plan_that_needs_no_rack_is_told_corrected_and_shown_as_that) {
    RackScene scene(true);
    for (const NodeIndex n : {3U, 7U}) scene.host.view.snapshot.nodes[n].free_gpus = 0;
    scene.wants(1, 24, 24);
    const auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_msg(called(scene.host, "start 1 n0,n1,n2,n4,n5,n6"), "%s",
                  scheduler->explain(1).c_str());
    const Offer ran = scene.host.started.at(1).offer;
    ck_assert_int_eq(ran.segment, 1);
    const auto chosen = [&] {
        const Json told = Json::parse(scheduler->explain(1));
        const Json& own = told["offers"][told["chosen"].get<std::size_t>()];
        ck_assert_msg(own["grid"]["nodes"] == 6 && !own.contains("segment"), "%s",
                      told.dump().c_str());
        ck_assert(std::ranges::any_of(told["offers"], [](const Json& offer) {
            return offer["grid"]["nodes"] == 6 && offer.contains("segment");
        }));
        return own["estimate"]["iteration_s"].get<double>();
    };
    const double planned_s = chosen();
    ck_assert_double_eq_tol(ran.estimate.iteration_s, planned_s, 1e-9);
    scene.runs(ran, {0, 1, 2, 4, 5, 6});
    scheduler->round();
    ck_assert_double_eq_tol(chosen(), planned_s, 1e-9);
    const std::string told = scene.reports(*scheduler, ran);
    ck_assert_msg(told.find("(1.5 times slower)") != std::string::npos, "%s", told.c_str());
    scheduler->round();
    ck_assert_double_eq_tol(chosen(), 1.5 * planned_s, 1e-6 * planned_s);
}

TEST(a_report_of_a_plan_that_needs_racks_stands_beside_its_time_in_them) {
    RackScene scene(true);
    scene.wants(1, 24, 24);
    const auto scheduler = scene.scheduler();
    scheduler->round();
    const Offer ran = scene.host.started.at(1).offer;
    ck_assert_int_gt(ran.segment, 1);
    scene.runs(ran, {0, 1, 2, 3, 4, 5});
    scheduler->round();
    const std::string told = scene.reports(*scheduler, ran);
    ck_assert_msg(told.find("(1.5 times slower)") != std::string::npos, "%s", told.c_str());
}

/// A partition of Slurm 25.05 with a topology of its own: its own node and a shared one lie below
/// two tops as far as Arena knows, and Slurm places the job.
TEST(a_job_whose_partition_has_another_topology_is_released_onto_any_of_its_nodes) {
    for (const bool other : {true, false}) {
        Scene scene;
        Snapshot& snapshot = scene.host.view.snapshot;
        for (const char* name : {"n1", "n2"}) scene.node(name, "a40", 4, 4);
        snapshot.topology = NetworkKind::tree;
        SwitchTable table;
        snapshot.nodes[0].leaf = table.add({"s0"});
        snapshot.switches = table.take();
        snapshot.nodes[1].leaf = add_unknown_leaf(snapshot);
        Request r = Scene::request();
        r.min_gpus = r.max_gpus = 8;
        scene.job(1, r).slots = {{"main", {.other_network = other}, true}};
        scene.scheduler()->round();
        ck_assert_int_eq(called(scene.host, "release 1"), other);
        ck_assert(!scene.host.started.contains(1));
    }
}

TEST(nodes_are_of_another_topology_where_no_partition_of_the_default_has_them) {
    const struct { int topology_idx; } first{0}, second{1};
    const struct { int max_nodes; } old{1};
    ck_assert(!has_other_topology(&first) && has_other_topology(&second));
    ck_assert(!has_other_topology(&old));
    OtherNodes nodes(4);
    for (const std::size_t n : {0U, 1U}) nodes.add(n, has_other_topology(&first));
    ck_assert(!nodes.has(0) && !nodes.has(3) && nodes.empty());
    for (const std::size_t n : {1U, 2U}) nodes.add(n, has_other_topology(&second));
    ck_assert(!nodes.has(0) && !nodes.has(1) && nodes.has(2) && !nodes.has(3));
    ck_assert(!nodes.empty());
    Snapshot snapshot;
    ck_assert_int_eq(add_unknown_leaf(snapshot), -1);
    snapshot.topology = NetworkKind::block;
    ck_assert_int_eq(add_unknown_leaf(snapshot), -1);
    snapshot.topology = NetworkKind::tree;
    snapshot.switches = {{.name = "s0"}};
    ck_assert_int_eq(add_unknown_leaf(snapshot), 1);
    ck_assert(snapshot.switches[1].above < 0);
}

TEST(pieces_that_slurm_refuses_rest_whatever_their_split) {
    Scene scene;
    job_for_pieces(scene);
    scene.host.next_start = {ApplyOutcome::never, "no"};
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(called(scene.host, "start 1 n1,n2"));
    scene.host.calls.clear();
    std::swap(scene.host.view.snapshot.nodes[0].free_gpus,
              scene.host.view.snapshot.nodes[1].free_gpus);
    scheduler->round();
    ck_assert(!called(scene.host, "start 1 n1,n2"));
}

TEST(what_a_running_job_has_of_each_node_is_what_slurm_says) {
    Scene scene;
    job_for_pieces(scene);
    auto scheduler = scene.scheduler();
    scheduler->round();
    JobView& job = scene.host.view.jobs[0];
    job.facts.state = HostJobState::running;
    job.facts.held = false;
    job.facts.mark = JobMark{Phase::started, 0, OtherHold::none, 0};
    job.offer_json = to_json(scene.host.last_shape.offer);
    job.nodes = {0, 1};
    job.start_s = 990;
    for (NodeState& node : scene.host.view.snapshot.nodes) node.free_gpus = 0;
    scene.host.view.running = {{1, INFINITY, {{0, 1, 4, 16000}, {1, 3, 12, 48000}}}};
    scheduler->round();
    const Result<Replay> seen = parse_replay(scheduler->snapshot_json());
    ck_assert(seen && seen->snapshot.jobs.size() == 1);
    ck_assert(seen->snapshot.jobs[0].current->grid.split == (std::vector<std::int64_t>{1, 3}));
}

TEST(jobs_whose_nodes_are_gone_wait_in_slurms_words) {
    Scene scene;
    scene.config.reserve_depth = 0;
    scene.node("n1", "a40", 4, 0);
    scene.host.view.snapshot.nodes[0].up = false;
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_str_eq(scene.host.reasons.back().text.c_str(),
                     "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher "
                     "priority partitions");
    scene.host.view.snapshot.nodes[0].up = true;
    scheduler->round();
    ck_assert(scene.host.reasons.back().text.starts_with("Arena: "));
    scene.host.view.jobs[0].no_nodes =
        "BadConstraints: no node with GPUs in partition main is what it asks for: --tmp=9";
    scheduler->round();
    ck_assert_str_eq(scene.host.reasons.back().text.c_str(),
                     scene.host.view.jobs[0].no_nodes.c_str());
    scheduler->note_update({1, "Comment: 'warp' is not known"});
    scheduler->round();
    ck_assert(scene.host.reasons.back().text.starts_with(
        "Arena: update refused: Comment: 'warp' is not known; BadConstraints"));
}

TEST(a_job_without_a_plan_says_why) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    Request r = Scene::request();
    r.pin.tp = 12;
    r.min_gpus = 12, r.max_gpus = 0;
    scene.job(1, r);
    scene.job(2).record = format_record([] {
                              Request other = Scene::request();
                              other.gpu_types = {"h100"};
                              return other;
                          }())
                              .value();
    scene.scheduler()->round();
    const auto reason = [&](JobId id) {
        for (const auto& r2 : scene.host.reasons)
            if (r2.job == id) return r2.text;
        return std::string();
    };
    ck_assert_msg(reason(1).find("no plan fits: ") != std::string::npos &&
                      reason(1).find("a40") != std::string::npos,
                  "%s", reason(1).c_str());
    ck_assert(reason(2) ==
              "Arena: no node that it may use has a GPU type that it may have and arena.yaml maps");
}

TEST(what_slurm_refused_is_tried_again_when_its_job_or_the_cluster_changes) {
    Scene scene;
    auto scheduler = scene.scheduler();
    (void)scene.refused_start(*scheduler, {ApplyOutcome::retry, "no node has it"});
    scene.host.calls.clear();
    scheduler->round();
    ck_assert(scene.host.calls.empty());
    scheduler->note_update({1, {}});
    scheduler->round();
    ck_assert(called(scene.host, "start 1 n1"));
    scene.host.calls.clear();
    scene.node("n2", "a100", 4, 4);
    scheduler->round();
    ck_assert(!scene.host.calls.empty());
}

TEST(a_refused_update_stands_before_the_reason_until_one_is_taken) {
    Scene scene;
    auto scheduler = scene.scheduler();
    (void)scene.refused_start(*scheduler, {ApplyOutcome::limited, "not allowed: AssocGrpGRES"});
    scheduler->note_update({1, "Comment=arena:plan: tp5 does not divide the 12 heads of gpt2"});
    scheduler->round();
    ck_assert_str_eq(
        scene.host.reasons.back().text.c_str(),
        "Arena: update refused: Comment=arena:plan: tp5 does not divide the 12 heads of gpt2; "
        "not allowed: AssocGrpGRES");
    ck_assert(scheduler->explain(1).find("tp5 does not divide") != std::string::npos);
    scheduler->note_update({1, {}});
    scheduler->round();
    ck_assert_str_eq(scene.host.reasons.back().text.c_str(), "Arena: not allowed: AssocGrpGRES");
}

TEST(an_offer_that_a_limit_refused_is_tried_again_as_soon_as_a_job_ends) {
    Scene scene;
    scene.node("n1", "a40", 4, 3);
    Request one = Scene::request();
    one.min_gpus = one.max_gpus = 1;
    scene.job(1, one);
    scene.host.next_start = {ApplyOutcome::limited, "not allowed: AssocGrpGRES"};
    auto scheduler = scene.scheduler();
    for (int i = 0; i < 20; ++i) scheduler->round();  // every offer was refused
    scene.host.calls.clear();
    scheduler->round();
    ck_assert(scene.host.calls.empty());
    ck_assert(scene.host.reasons.back().text == "Arena: not allowed: AssocGrpGRES");
    scene.host.view.snapshot.nodes[0].free_gpus = 4;
    scheduler->round();
    ck_assert(called(scene.host, "start 1 n1"));
}

TEST(busy_nodes_cost_a_job_its_place_only_after_a_while) {
    Scene scene;
    auto scheduler = scene.scheduler();
    const Grid first = scene.refused_start(*scheduler, {ApplyOutcome::busy, "nodes are busy"});
    scene.host.view.snapshot.time_s += 5;
    scheduler->round();
    ck_assert(!called(scene.host, "hold 1"));
    ck_assert(scene.host.last_shape.offer.grid == first);
    scene.host.view.snapshot.time_s += 6;
    scheduler->round();
    ck_assert(called(scene.host, "hold 1"));
    scheduler->round();
    ck_assert(!(scene.host.last_shape.offer.grid == first));
}

TEST(requeued_jobs_wait_until_slurmd_accepts_them_again) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    JobView& job = scene.job(1);
    job.facts.restart = 1;
    job.facts.mark->restart = 1;
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.host.calls.empty());
    scene.host.view.snapshot.time_s += 2;
    scheduler->round();
    ck_assert(called(scene.host, "start 1 n1"));
}

TEST(nothing_starts_while_nodes_may_hold_jobs_that_a_dead_controller_forgot) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    scene.job(1);
    scene.host.view.since_recovery_s = 4;
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.host.calls.empty());
    scene.host.view.since_recovery_s = 8;
    scheduler->round();
    ck_assert(called(scene.host, "start 1 n1"));
}

TEST(two_jobs_of_one_model_cause_one_profile_run_per_type) {
    ProfilingScene scene;
    scene.node("n2", "a100", 4, 4);
    scene.job(1);
    scene.job(2);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_uint_eq(scene.host.specs.size(), 2);
    ck_assert(called(scene.host, "carrier a40 n1") && called(scene.host, "carrier a100 n2"));
    ck_assert_uint_eq(scene.host.reasons.size(), 2);
    ck_assert(scene.host.reasons[0].text.find("profiling gpt2 on") != std::string::npos);
}

TEST(a_profile_run_delays_no_ordinary_job_that_stands_before) {
    ProfilingScene scene;
    JobView& job = scene.job(1);
    job.eligible_s = scene.host.view.snapshot.time_s;
    job.ordinary_start_s = 0;  // Slurm has not said when
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.host.specs.empty() && !called(scene.host, "release 1"));
    ck_assert_uint_eq(scene.host.reasons.size(), 1);
    ck_assert(scene.host.reasons[0].text.find("has not said yet") != std::string::npos);

    job.ordinary_start_s = scene.host.view.snapshot.time_s + scene.config.profile_time_limit_s + 1;
    scheduler->round();  // in time before that job
    ck_assert(called(scene.host, "carrier a40 n1"));
}

TEST(behind_an_ordinary_job_that_is_about_to_start_the_analytic_estimate_stands_in) {
    ProfilingScene scene;
    JobView& job = scene.job(1);
    job.ordinary_start_s = scene.host.view.snapshot.time_s + 5;
    scene.scheduler()->round();
    ck_assert(scene.host.specs.empty() && called(scene.host, "release 1"));
}

Profile result_for(const ProfileRequest& request) {
    Profile profile;
    profile.nonce = request.nonce;
    profile.gpu_type = request.gpu_type;
    profile.hardware = request.hardware;
    profile.model_fingerprint = fingerprint(request.model);
    profile.device = {"cpu", "test", "", "1", "none", 1, 1, "n1"};
    profile.device_seconds = 1;
    profile.started_s = 1000;
    profile.entries = {
        {{OpKind::gemm, Pass::forward, Precision::fp32, {8, 8, 8, 1}}, 1e-3, 3, 0.01}};
    return profile;
}

/// Makes the running carriers of the host finished ones.
void finish_carriers(Scene& scene, bool with_result, std::uint32_t user_id = 0) {
    scene.host.view.carriers.clear();
    JobId id = 100;
    for (const CarrierSpec& spec : scene.host.specs) {
        if (with_result)
            ck_assert(write_file_atomic(scene.directory / (spec.request.nonce + ".json"),
                                        to_json(result_for(spec.request)), 0644)
                          .ok());
        scene.host.view.carriers.push_back(
            {++id, user_id, to_json(spec.request), spec.node, true, 1000});
    }
}

TEST(a_result_in_the_spool_is_imported_once_and_the_job_starts) {
    ProfilingScene scene;
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(!called(scene.host, "start 1 n1"));
    finish_carriers(scene, true);
    scheduler->round();
    ck_assert(called(scene.host, "start 1 n1"));
    scene.job(2);
    scene.host.calls.clear();
    scheduler->round();
    ck_assert(!called(scene.host, "carrier a40 n1"));
    auto restarted = scene.scheduler();  // knows nothing: store and job list tell it
    restarted->round();
    ck_assert(!called(scene.host, "carrier a40 n1"));
}

TEST(a_job_of_another_user_is_no_carrier_whatever_it_carries) {
    ProfilingScene scene;
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    finish_carriers(scene, true, 1234);
    scene.host.calls.clear();
    scheduler->round();
    ck_assert(!called(scene.host, "start 1 n1"));
    ck_assert(called(scene.host,
                     "carrier a40 n1"));  // the forged one counts neither as result nor as running
}

TEST(failed_profiling_is_tried_on_another_node_and_then_estimated) {
    ProfilingScene scene;
    scene.node("n2", "a40", 4, 4);
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    finish_carriers(scene, false);
    scheduler->round();
    ck_assert_uint_eq(scene.host.specs.size(), 1);  // the result may still come
    scene.host.view.snapshot.time_s += 4;
    scheduler->round();
    ck_assert_uint_eq(scene.host.specs.size(), 2);
    ck_assert_str_eq(scene.host.specs[1].node.c_str(), "n2");
    finish_carriers(scene, false);
    scheduler->round();
    scene.host.view.snapshot.time_s += 4;
    scheduler->round();
    ck_assert_uint_eq(scene.host.specs.size(), 2);
    ck_assert(std::any_of(scene.host.calls.begin(), scene.host.calls.end(),
                          [](const std::string& c) { return c.starts_with("start 1"); }));
    ck_assert(scene.host.last_shape.offer.estimate.source == Source::analytic);
}

TEST(a_model_that_could_not_be_profiled_is_tried_again_after_the_back_off) {
    Scene scene;
    scene.config.profile_enabled = true;
    scene.config.profile_backoff_s = 600;
    scene.node("n1", "a40", 4, 4);
    scene.job(1);
    auto scheduler = scene.scheduler();
    double& now_s = scene.host.view.snapshot.time_s;
    const auto fail_once = [&] {
        finish_carriers(scene, false);
        scheduler->round();  // a missing result is waited for
        now_s += 4;
        scheduler->round();
    };
    scheduler->round();
    fail_once();
    fail_once();
    ck_assert_uint_eq(scene.host.specs.size(), 2);
    now_s += 590;
    scene.job(2);
    scheduler->round();
    ck_assert_uint_eq(scene.host.specs.size(), 2);  // other jobs of the model, too, go without
    ck_assert(called(scene.host, "start 2 n1") || called(scene.host, "release 2"));
    now_s += 11;
    scheduler->round();
    ck_assert_uint_eq(scene.host.specs.size(), 3);
}

TEST(a_refused_carrier_leaves_the_analytic_estimate) {
    Scene scene;
    scene.config.profile_enabled = true;
    scene.host.carriers_refused = true;
    scene.node("n1", "a40", 4, 4);
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(called(scene.host, "start 1 n1"));
    ck_assert(scene.host.last_shape.system_comment.ends_with(
        " not measured: a40: refused by the partition"));
    ck_assert(scheduler->explain(1).find("a40: refused by the partition") != std::string::npos);
}

Request other_model() {
    Request r = Scene::request();
    r.model.layers = 6;
    r.model.name = "gpt2-half";
    return r;
}

TEST(a_job_waits_for_the_profile_run_that_has_its_node) {
    ProfilingScene scene;
    scene.node("n2", "a100", 4, 4);
    Request first = Scene::request(), second = other_model();
    first.gpu_types = second.gpu_types = {"a40"};
    scene.job(1, first);
    scene.job(2, second);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert_uint_eq(scene.host.specs.size(), 1);
    ck_assert(!called(scene.host, "start 2 n1") && !called(scene.host, "release 2"));
    const auto said = [&](const std::string& text) {
        return std::any_of(scene.host.reasons.begin(), scene.host.reasons.end(),
                           [&](const Host::Reason& r) {
                               return r.job == 2 && r.text.find(text) != std::string::npos;
                           });
    };
    ck_assert(said("waiting to profile gpt2-half on a40: behind 1 other profile run"));
    finish_carriers(scene, true);
    scene.host.view.carriers[0].finished = false;  // its script is over, its node not yet free
    scene.host.view.snapshot.nodes[0].free_gpus = 0;
    scheduler->round();
    ck_assert_uint_eq(scene.host.specs.size(), 1);
    ck_assert(!called(scene.host, "release 2") && said("behind 1 other profile run"));
    scene.host.view.carriers[0].finished = true;
    scene.host.view.snapshot.nodes[0].free_gpus = 4;
    scheduler->round();
    ck_assert_uint_eq(scene.host.specs.size(), 2);
    ck_assert_str_eq(scene.host.specs[1].request.model.name.c_str(), "gpt2-half");
}

TEST(a_gpu_that_a_user_has_leaves_the_analytic_estimate) {
    Scene scene;
    scene.config.profile_enabled = true;
    scene.node("n1", "a40", 4, 0);
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.host.specs.empty() && called(scene.host, "release 1"));
    ck_assert(scheduler->explain(1).find("no free a40 to profile on") != std::string::npos);
}

TEST(nodes_that_profile_runs_just_took_are_given_to_nobody) {
    Scene scene;
    scene.config.profile_enabled = true;
    scene.node("n1", "a40", 1, 1);
    scene.node("n2", "a100", 1, 1);
    Request first = Scene::request(), second = other_model();
    first.gpu_types = {"a40"};
    first.max_gpus = second.max_gpus = 1;
    second.gpu_types = {"a40", "a100"};
    scene.job(1, first);
    scene.job(2, second);
    JobView& released =
        scene.job(3, second);  // waits with a shape: nothing is measured for it any more
    released.facts.held = false;
    released.facts.mark->phase = Phase::released;
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(called(scene.host, "carrier a40 n1") && called(scene.host, "carrier a100 n2"));
    ck_assert(!called(scene.host, "start 3 n1") && !called(scene.host, "start 3 n2"));
    const std::string decided = scheduler->snapshot_json();
    ck_assert(decided.find("\"free_gpus\":0") != std::string::npos);
    ck_assert_msg(decided.find("\"free_gpus\":1") == std::string::npos, "decided on %s",
                  decided.c_str());
}

/// So that what is due at a time is due in one round, however often there are rounds.
TEST(the_policy_knows_how_long_ago_it_decided) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    auto scheduler = scene.scheduler();
    const auto window_s = [&] {
        scheduler->round();
        const Replay decided = must(parse_replay(scheduler->snapshot_json()));
        return decided.options.window_s;
    };
    ck_assert(window_s() == 0);
    scene.host.view.snapshot.time_s += 4;
    ck_assert(window_s() == 4);
    scene.host.view.snapshot.time_s += 0.5;
    ck_assert(window_s() == 0.5);
    scene.host.view.snapshot.time_s -= 60;  // somebody set the clock
    ck_assert(window_s() == 0);
}

TEST(the_store_is_asked_once_a_round_for_a_model_on_a_type) {
    Scene scene;
    scene.config.profile_enabled = true;
    scene.node("n1", "a40", 4, 0);  // users have it: its jobs go without a profile
    scene.node("n2", "a100", 4, 4);
    Request known = Scene::request(), other = other_model();
    known.gpu_types = {"a40"};
    other.gpu_types = {"a100"};
    scene.job(1, known);
    scene.job(2, other);
    scene.job(3, known);
    auto scheduler = scene.scheduler();
    scene.host.on_carrier = [&] {  // of job 2: another process measures what jobs 1 and 3 want
        ProfileRequest request;
        request.nonce = "0123456789abcdef0123456789abcdef";
        request.gpu_type = "a40", request.hardware = "emulated-cpu", request.model = known.model;
        auto store = ProfileStore::open(scene.config.profile_store);
        ck_assert(store.ok() && store.value()->import(result_for(request), "gpt2").ok());
    };
    const auto unmeasured = [&](JobId job) {
        return scheduler->explain(job).find("no free a40 to profile on") != std::string::npos;
    };
    scheduler->round();
    ck_assert(called(scene.host, "carrier a100 n2"));
    ck_assert_msg(unmeasured(1) && unmeasured(3), "job 3 goes by what the store said for job 1");
    scene.host.on_carrier = [] {};
    scheduler->round();
    ck_assert(!unmeasured(1) && !unmeasured(3));
}

TEST(a_changed_request_checkpoints_an_elastic_job_and_the_deadline_requeues_it) {
    Scene scene;
    scene.node("n1", "a40", 4, 0);
    Request request = Scene::request();
    request.elastic = true;
    JobView& job = scene.job(1, request);
    Offer offer;
    offer.grid = {"a40", 1, 2, 1};
    offer.plan.stage_layers = {12};
    offer.plan.stage_dp = {2};
    offer.plan.stage_tp = {1};
    job.facts.state = HostJobState::running;
    job.facts.held = false;
    job.facts.mark->phase = Phase::started;
    job.offer_json = to_json(offer);
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.host.calls.empty());
    scene.host.view.jobs[0].comment = "arena:gpus=1-1";
    scene.host.view.jobs[0].start_s = 999;
    scheduler->round();
    ck_assert_msg(scene.host.calls.empty(),
                  "its script may not have said yet what to do with the signal");
    scene.host.view.jobs[0].start_s = 990;
    scheduler->round();
    ck_assert(called(scene.host, "checkpoint 1"));
    ck_assert(scheduler->explain(1).find("its owner asks for another shape: arena:gpus=1-1") !=
              std::string::npos);
    scene.host.view.jobs[0].facts.mark = JobMark{Phase::checkpointing, 0, OtherHold::none, 1000};
    scene.host.calls.clear();
    scheduler->round();
    ck_assert(scene.host.calls.empty());
    scene.host.view.snapshot.time_s = 1000 + scene.config.checkpoint_grace_s + 1;
    scheduler->round();
    ck_assert(called(scene.host, "requeue 1"));
}

TEST(a_job_whose_script_asks_goes_on_inside_itself_on_fewer_of_its_nodes) {
    Scene scene;
    for (const char* node : {"n1", "n2", "n3"}) scene.node(node, "a40", 1, 0);
    Request request = Scene::request();
    request.elastic = request.inplace = true;
    JobView& job = scene.job(1, request);
    Offer offer;
    offer.grid = {"a40", 3, 1, 1};
    offer.plan.stage_layers = {12};
    offer.plan.stage_dp = {3};
    offer.plan.stage_tp = {1};
    job.facts.state = HostJobState::running;
    job.facts.held = false;
    job.facts.mark->phase = Phase::started;
    job.offer_json = to_json(offer);
    job.nodes = {0, 1, 2};
    job.batch_host = "n2";
    job.start_s = 900;
    job.comment = "arena:gpus=2-2";
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(called(scene.host, "checkpoint 1"));
    ck_assert(scene.host.last_move.stay.has_value());
    const Stay stay = *scene.host.last_move.stay;
    ck_assert_str_eq(join(stay.nodes, ",").c_str(), "n1,n2");
    ck_assert(stay.offer.grid.gpus() == 2);
    JobView& told = scene.host.view.jobs[0];
    told.facts.mark = JobMark{Phase::checkpointing, 0, OtherHold::none, 1000};
    told.next_json = to_json(stay.offer);
    told.next_nodes = join(stay.nodes, ",");
    scene.host.calls.clear();
    scheduler->round();
    ck_assert_msg(scene.host.calls.empty(), "its script does not ask yet");
    told.facts.mark->asks = told.has_steps = true;
    scheduler->round();
    ck_assert_msg(scene.host.calls.empty(), "its step has yet to end");
    told.has_steps = false;
    scheduler->round();
    ck_assert(called(scene.host, "stay on n1,n2 of 1"));
    ck_assert(scene.host.last_shape.offer.grid == stay.offer.grid);
    scene.host.calls.clear();
    scene.host.view.snapshot.time_s = 1000 + scene.config.checkpoint_grace_s + 1;
    scheduler->round();
    ck_assert_msg(called(scene.host, "requeue 1") && scene.host.calls.size() == 1, "too late");
}

TEST(what_does_not_fit_inside_a_job_is_a_requeue) {
    JobView job;
    job.nodes = {0, 1, 2};
    job.batch_host = "n1";
    Snapshot snapshot;
    for (const char* name : {"n1", "n2", "n3", "n4"}) {
        NodeState node;
        node.name = name;
        snapshot.nodes.push_back(node);
    }
    Request request;
    request.inplace = true;
    const auto on = [](std::int64_t nodes, std::int64_t gpus, const char* type = "a40") {
        Offer offer;
        offer.grid = {type, nodes, gpus, 1};
        return offer;
    };
    using Nodes = std::vector<NodeIndex>;
    const auto fits = [&](const Offer& next, const Nodes& chosen = {}) {
        return nodes_to_stay_on(job, request, on(3, 2), next, chosen, snapshot);
    };
    ck_assert(fits(on(3, 2)) == (Nodes{0, 1, 2}) && fits(on(1, 2)) == (Nodes{0}));
    ck_assert_msg(fits(on(2, 2), {1, 2}) == (Nodes{0, 1}), "the batch host stays");
    ck_assert(fits(on(2, 2), {0, 2}) == (Nodes{0, 2}));
    ck_assert_msg(fits(on(2, 2), {0, 3}).empty(), "a node that it does not have");
    ck_assert(fits(on(4, 2)).empty() && fits(on(3, 1)).empty() && fits(on(3, 2, "a100")).empty());
    job.avoided = {2};
    ck_assert_msg(fits(on(2, 2)).empty(), "it is to leave one");
    job.avoided.clear();
    snapshot.nodes[1].lent = "L1";
    ck_assert_msg(fits(on(2, 2)).empty(), "one is lent");
    snapshot.nodes[1].lent.clear();
    request.inplace = false;
    ck_assert(fits(on(2, 2)).empty());
}

TEST(a_round_ends_where_the_controller_stops) {
    Scene scene;
    for (int i = 1; i <= 8; ++i) {
        scene.node("n" + std::to_string(i), "a40", 2, 2);
        scene.job(static_cast<JobId>(i));
    }
    auto scheduler = scene.scheduler();
    scene.host.stops_after = 3;
    scheduler->round();
    ck_assert_uint_eq(scene.host.calls.size(), 3);
    scene.host.stops_after = SIZE_MAX;
    scene.host.calls.clear();
    scheduler->round();
    ck_assert_msg(scene.host.calls.size() > 3, "the same scene has more to start");
    scene.host.calls.clear();
    scene.host.stops_after = 0;
    scheduler->round();
    ck_assert_msg(scene.host.calls.empty(), "nothing at all once it has begun");
}

TEST(what_was_planned_is_sent_with_what_it_rested_on) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    scene.job(1).basis = 4711;
    scene.scheduler()->round();
    ck_assert(called(scene.host, "start 1 n1"));
    ck_assert_uint_eq(scene.host.last_shape.basis, 4711);
    scene.host.view.jobs[0].comment = "arena:off";
    scene.host.view.jobs[0].basis = 4712;
    scene.scheduler()->round();
    ck_assert(called(scene.host, "opt_out 1x 1"));
    ck_assert_uint_eq(scene.host.last_shape.basis, 4712);
}

TEST(preemption_that_never_ends_is_given_up) {
    Scene scene;
    scene.node("n1", "a40", 4, 0);
    JobView& job = scene.job(1);
    job.facts.held = false;
    job.facts.mark = JobMark{Phase::starting, 0, OtherHold::none, 1000};
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scene.host.calls.empty());
    scene.host.view.snapshot.time_s = 1000 + scene.host.view.preemption_wait_s + 1;
    scheduler->round();
    ck_assert(called(scene.host, "hold 1"));
}

TEST(comments_opt_out_and_bad_comments_are_told) {
    Scene scene;
    scene.node("n1", "a40", 4, 4);
    scene.job(1).comment = "arena:off";
    scene.job(2).comment = "arena:faster";
    scene.scheduler()->round();
    ck_assert(called(scene.host, "opt_out 1x 1"));
    ck_assert_uint_eq(scene.host.reasons.size(), 1);
    ck_assert(scene.host.reasons[0].text.find("arena:gpus=MIN-MAX") != std::string::npos);
}

TEST(an_opted_out_job_stays_within_its_types_and_count) {
    Scene scene;
    scene.host.view.memory_tracked = true;
    scene.node("n1", "a40", 4, 4);
    scene.node("n2", "a100", 4, 4);
    scene.node("n3", "a100", 4, 4);
    Request r = Scene::request();
    r.gpu_types = {"a100"};
    r.min_gpus = 6;
    r.max_gpus = 8;
    scene.job(1, r).comment = "arena:off";
    scene.scheduler()->round();
    ck_assert(called(scene.host, "opt_out 2x3xa100 1"));
    ck_assert_int_eq(scene.host.last_shape.memory_mb_per_node, 3 * 16000);
}

TEST(a_released_job_with_a_bad_comment_is_held_to_say_so) {
    Scene scene;
    scene.node("n1", "a40", 4, 0);
    JobView& job = scene.job(1);
    job.facts.held = false;
    job.facts.mark = JobMark{Phase::released, 0, OtherHold::none, 0};
    job.comment = "arena:faster";
    scene.scheduler()->round();
    ck_assert(called(scene.host, "hold 1"));
    ck_assert_uint_eq(scene.host.reasons.size(), 1);
}

TEST(a_richer_type_does_not_make_a_poorer_one_impossible) {
    Scene scene;
    scene.host.view.memory_tracked = true;
    scene.node("n1", "a40", 2, 0);   // 32000 MB for each of its GPUs
    scene.node("n2", "a100", 4, 4);  // 16000 MB
    Request r = Scene::request();
    r.pin.pp = r.pin.dp = 2;
    r.pin.tp = 1;
    r.min_gpus = r.max_gpus = 4;
    scene.job(1, r);
    scene.scheduler()->round();
    ck_assert(called(scene.host, "start 1 n2"));
    ck_assert_int_eq(scene.host.last_shape.memory_mb_per_node, 64000);
}

/// Its first job starts in the first round.
struct ReportingScene : Scene {
    ReportingScene() {
        node("n1", "a40", 2, 2);
        job(1);
    }
    /// The first job's: it takes half as long again as estimated.
    [[nodiscard]] LeftReport slow_report() const {
        const Offer& ran = host.last_shape.offer;
        return {
            1,
            format_record(request()).value(),
            to_json(ran),
            {1.5 * ran.estimate.iteration_s, 0.01, 20, short_form(ran.grid), short_form(ran.plan)}};
    }
    /// Whether a report corrected what this next job is offered.
    bool told_observed(Scheduler& scheduler, JobId id) {
        job(id);
        scheduler.round();
        return scheduler.explain(id).find("\"source\":\"observed\"") != std::string::npos;
    }
};

TEST(a_report_corrects_what_the_next_job_is_offered_also_after_a_restart) {
    ReportingScene scene;
    auto scheduler = scene.scheduler();
    scheduler->round();
    const Offer ran = scene.host.last_shape.offer;
    LeftReport left = scene.slow_report();
    scheduler->observe(left, 2000);
    for (int life = 0; life < 2; ++life) {
        scene.job(2 + static_cast<JobId>(life));
        scheduler->round();
        const std::string told = scheduler->explain(2 + static_cast<JobId>(life));
        ck_assert_msg(told.find("\"source\":\"observed\"") != std::string::npos, "%s",
                      told.c_str());
        scheduler.reset();  // its store is one writer's
        scheduler = scene.scheduler();
    }
    // A job that waits for its data is as slow as it says.
    left.report.iteration_s = 30 * ran.estimate.iteration_s;
    scheduler->observe(left, 2001);
    scene.job(4);
    scheduler->round();
    const Json told = parse_json(scheduler->explain(4)).value();
    double observed_s = 0;
    for (const Json& offer : told.at("offers"))
        if (offer.at("estimate").at("source") == "observed")
            observed_s = offer.at("estimate").at("iteration_s").get<double>();
    ck_assert_double_eq_tol(observed_s, left.report.iteration_s, 1e-3 * observed_s);
}

/// A directory in its place: the store cannot be opened. The next round, a minute later, may again.
void close_store(Scene& scene) {
    const std::filesystem::path store(scene.config.profile_store);
    if (std::filesystem::exists(store)) std::filesystem::rename(store, store.string() + ".aside");
    std::filesystem::create_directory(store);
}

void open_store(Scene& scene) {
    const std::filesystem::path store(scene.config.profile_store);
    std::filesystem::remove(store);
    if (std::filesystem::exists(store.string() + ".aside"))
        std::filesystem::rename(store.string() + ".aside", store);
    scene.host.view.snapshot.time_s += 60;
}

TEST(a_store_that_opens_late_gives_back_what_was_observed_and_takes_what_was_reported) {
    ReportingScene scene;
    auto scheduler = scene.scheduler();
    scheduler->round();
    const LeftReport left = scene.slow_report();
    const auto told_observed = [&](JobId id) { return scene.told_observed(*scheduler, id); };
    scheduler->observe(left, 2000);
    scheduler.reset();
    close_store(scene);
    scheduler = scene.scheduler();
    ck_assert(!told_observed(2));
    open_store(scene);
    ck_assert(told_observed(3));
    // Reported while it is closed: in force at once, in the store when it opens.
    scheduler.reset();
    std::filesystem::remove(scene.config.profile_store);
    close_store(scene);
    scheduler = scene.scheduler();
    ck_assert(!told_observed(4));
    scheduler->observe(left, 3000);
    ck_assert(told_observed(5));
    open_store(scene);
    ck_assert(told_observed(6));
    scheduler.reset();
    scheduler = scene.scheduler();
    ck_assert(told_observed(7));
}

TEST(a_report_in_the_store_that_cannot_be_is_named_once_and_the_others_count) {
    ReportingScene scene;
    auto scheduler = scene.scheduler();
    scheduler->round();
    scheduler->observe(scene.slow_report(), 2000);
    scheduler.reset();
    sqlite3* db = nullptr;
    ck_assert_int_eq(sqlite3_open(scene.config.profile_store.c_str(), &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db,
                                  "CREATE TABLE bad AS SELECT * FROM observed;"
                                  "UPDATE bad SET seq = 2, global_batch = global_batch + 1, "
                                  "iteration_s = 9e999;"
                                  "INSERT INTO observed SELECT * FROM bad; DROP TABLE bad",
                                  nullptr, nullptr, nullptr),
                     SQLITE_OK);
    sqlite3_close(db);
    scene.host.errors.clear();
    scheduler = scene.scheduler();
    for (const JobId id : {2, 3}) ck_assert(scene.told_observed(*scheduler, id));
    ck_assert_uint_eq(scene.host.errors.size(), 1);
    for (const char* part : {"row 2 of observed, report of job 1 on a40, cannot be: ",
                             "; it is left out, `arena profile verify --remove` removes it"})
        ck_assert_msg(scene.host.errors[0].find(part) != std::string::npos, "%s",
                      scene.host.errors[0].c_str());
}

TEST(a_result_that_comes_while_the_store_is_closed_is_taken_in_when_it_opens) {
    ProfilingScene scene;
    scene.job(1);
    auto scheduler = scene.scheduler();
    scheduler->round();
    finish_carriers(scene, true);
    scheduler.reset();
    close_store(scene);
    scheduler = scene.scheduler();
    scene.host.calls.clear();
    scheduler->round();
    ck_assert(called(scene.host, "start 1 n1"));  // with the analytic estimate: nobody waits
    ck_assert(scheduler->stats_json().find("\"failed\":0") != std::string::npos);
    open_store(scene);
    scene.job(2);
    scene.host.calls.clear();
    scheduler->round();
    ck_assert(called(scene.host, "start 2 n1"));
    ck_assert(!called(scene.host, "carrier a40 n1"));
}

TEST(explain_answers_its_owner_and_admins_only) {
    Scene scene;
    scene.node("n1", "a40", 4, 0);
    scene.job(1).user_id = 7;
    auto scheduler = scene.scheduler();
    scheduler->round();
    ck_assert(scheduler->explain(1, {false, 8}).empty());
    ck_assert(scheduler->explain(2).empty());
    const std::string own = scheduler->explain(1, {false, 7});
    ck_assert(own.find("\"chosen\":0") != std::string::npos);
    ck_assert(own == scheduler->explain(1));
}

}  // namespace
