// SPDX-License-Identifier: GPL-2.0-or-later
// Policy fifo on small clusters whose right answer can be seen by eye, and its time at full size.
#include "policy/fifo.h"

#include <cstdio>
#include <ctime>

#include "suite.h"

using namespace arena;
using arena::test::assert_text;

namespace {

NodeState node(const char* name, const char* type, std::int64_t total, std::int64_t free) {
    return {name, type, total, free, 64, 512000};
}

JobState pending(JobId id, double priority) {
    JobState job;
    job.id = id;
    job.priority = priority;
    job.submit_s = 1000 + id;
    job.max_gpus = 64;
    return job;
}

Offer offer(const char* type, std::int64_t nodes, std::int64_t per_node, double iteration_s) {
    Offer o;
    o.grid = {type, nodes, per_node, 1};
    o.plan.stage_layers = {1};
    o.plan.stage_dp = {nodes * per_node};
    o.plan.stage_tp = {1};
    o.estimate.iteration_s = iteration_s;
    return o;
}

Snapshot two_types() {
    Snapshot s;
    s.nodes = {node("n0", "a40", 4, 4), node("n1", "a40", 4, 2), node("n2", "a100", 8, 8)};
    s.node_sets = {{0, 1, 2}};
    return s;
}

/// CPU time of this process: other programs on the machine do not count.
double cpu_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

const Action& only_action(const Decision& d) {
    ck_assert_uint_eq(d.actions.size(), 1);
    return d.actions.front();
}

}  // namespace

TEST(the_fastest_offer_that_fits_is_started) {
    Snapshot s = two_types();
    s.jobs = {pending(1, 10)};
    const Offers offers{
        {1, {offer("a100", 2, 8, 1), offer("a40", 1, 4, 3), offer("a100", 1, 8, 2)}}};
    const Decision d = decide_fifo(s, offers, {});
    const Action& a = only_action(d);
    ck_assert(a.kind == ActionKind::start);
    ck_assert(a.offer == offers.at(1)[2]);
    ck_assert(a.nodes == std::vector<NodeIndex>{2});
    ck_assert(d.waiting.empty());
}

TEST(the_fullest_node_that_fits_is_taken) {
    Snapshot s = two_types();
    s.jobs = {pending(1, 10)};
    const Decision d = decide_fifo(s, {{1, {offer("a40", 1, 2, 1)}}}, {});
    ck_assert(only_action(d).nodes == std::vector<NodeIndex>{1});
}

TEST(priority_then_submission_then_id_orders_jobs) {
    Snapshot s = two_types();
    s.jobs = {pending(3, 5), pending(2, 5), pending(9, 7)};
    const std::vector<Offer> one{offer("a100", 1, 8, 1)};
    const Decision d = decide_fifo(s, {{2, one}, {3, one}, {9, one}}, {.reserve_depth = 1});
    ck_assert_uint_eq(d.actions.size(), 2);
    ck_assert_uint_eq(d.actions[0].job, 9);
    ck_assert(d.actions[1].kind == ActionKind::reshape_and_wait);
    ck_assert_uint_eq(d.actions[1].job, 2);
    ck_assert_uint_eq(d.waiting.count(3), 1);
}

TEST(nobody_overtakes_on_the_nodes_a_job_waits_for) {
    Snapshot s = two_types();
    s.jobs = {pending(1, 9), pending(2, 8), pending(3, 7)};
    const Offers offers{{1, {offer("a40", 2, 4, 1)}},    // needs both a40 nodes: waits
                        {2, {offer("a40", 1, 2, 1)}},    // would fit now, but must not overtake
                        {3, {offer("a100", 1, 8, 1)}}};  // other GPU type: free to start
    const Decision d = decide_fifo(s, offers, {});
    ck_assert_uint_eq(d.actions.size(), 2);
    ck_assert(d.actions[0].kind == ActionKind::reshape_and_wait && d.actions[0].job == 1);
    ck_assert(d.actions[1].kind == ActionKind::start && d.actions[1].job == 3);
    assert_text(d.waiting.at(2), "waits for 2xa40: kept for JobId=1, which is ahead");
}

TEST(a_job_that_other_layouts_would_fit_waits_for_its_own_and_for_nobody) {
    Snapshot s = two_types();
    s.nodes[0].free_gpus = 2;  // 2 and 2: as many as the job takes, on one node
    s.jobs = {pending(1, 9)};
    const Decision d = decide_fifo(s, {{1, {offer("a40", 1, 4, 1)}}}, {.any_layout = true});
    const Action& a = only_action(d);
    ck_assert(a.kind == ActionKind::reshape_and_wait);
    ck_assert_msg(
        a.reason.starts_with("waits for 4xa40: ") && a.reason.find("kept for") == std::string::npos,
        "%s", a.reason.c_str());
}

TEST(nodes_outside_a_waiting_jobs_set_are_not_claimed) {
    Snapshot s = two_types();
    s.node_sets = {{0}, {1}};
    s.nodes[0].free_gpus = 0;
    s.jobs = {pending(1, 9), pending(2, 8)};
    s.jobs[1].node_set = 1;
    const Decision d =
        decide_fifo(s, {{1, {offer("a40", 1, 4, 1)}}, {2, {offer("a40", 1, 2, 1)}}}, {});
    ck_assert(d.actions[1].kind == ActionKind::start && d.actions[1].job == 2);
}

TEST(a_reservation_is_said_again_each_round) {
    Snapshot s = two_types();
    s.jobs = {pending(1, 9)};
    s.jobs[0].current = offer("a40", 2, 4, 5);
    const Decision d = decide_fifo(s, {{1, {offer("a40", 2, 4, 1)}}}, {});
    ck_assert(only_action(d).kind == ActionKind::reshape_and_wait);
    assert_text(only_action(d).reason, "waits for 2x4xa40: not enough free now");
    ck_assert(d.waiting.empty());
}

TEST(reserve_depth_limits_releases_per_node) {
    Snapshot s = two_types();
    for (NodeState& n : s.nodes) n.free_gpus = 0;
    for (JobId id = 1; id <= 4; ++id) s.jobs.push_back(pending(id, 10 - id));
    const std::vector<Offer> a40{offer("a40", 1, 4, 1)}, a100{offer("a100", 1, 8, 1)};
    const Offers offers{{1, a40}, {2, a40}, {3, a40}, {4, a100}};
    for (const auto& [depth, released] : {std::pair{0, 0U}, {1, 2U}, {2, 3U}, {3, 4U}}) {
        const Decision d = decide_fifo(s, offers, {.reserve_depth = depth});
        ck_assert_uint_eq(d.actions.size(), released);
        ck_assert_uint_eq(d.waiting.size(), 4 - released);
    }
}

TEST(cpus_and_memory_must_fit_too) {
    Snapshot s = two_types();
    s.jobs = {pending(1, 9)};
    s.jobs[0].cpus_per_gpu = 17;
    const Offers offers{{1, {offer("a40", 1, 4, 1)}}};
    ck_assert(only_action(decide_fifo(s, offers, {})).kind == ActionKind::reshape_and_wait);
    s.jobs[0].cpus_per_gpu = 16;
    ck_assert(only_action(decide_fifo(s, offers, {})).kind == ActionKind::start);
    s.jobs[0].memory_mb_per_gpu = 128001;
    ck_assert(only_action(decide_fifo(s, offers, {})).kind == ActionKind::reshape_and_wait);
}

TEST(jobs_that_can_never_be_placed_say_so_and_block_nobody) {
    Snapshot s = two_types();
    s.jobs = {pending(1, 9), pending(2, 8), pending(3, 7), pending(4, 6)};
    s.jobs[2].gpu_types = {"a40"};
    const Offers offers{{2, {offer("a40", 3, 4, 1)}},   // more nodes than there are
                        {3, {offer("a100", 1, 8, 1)}},  // a type the job does not allow
                        {4, {offer("a40", 1, 4, 1)}}};
    const Decision d = decide_fifo(s, offers, {});
    ck_assert(only_action(d).job == 4 && only_action(d).kind == ActionKind::start);
    assert_text(d.waiting.at(1), "no grid is feasible on the GPU types and counts allowed");
    assert_text(d.waiting.at(2),
                "no nodes that this job may use, and that are up, can hold its grids");
    ck_assert_uint_eq(d.waiting.count(3), 1);
}

TEST(a_node_that_is_down_is_not_waited_for) {
    Snapshot s = two_types();
    s.nodes[0].up = false;
    s.nodes[0].free_gpus = 0;
    s.nodes[1].free_gpus = 4;
    s.jobs = {pending(1, 9), pending(2, 8)};
    const Offers offers{{1, {offer("a40", 2, 4, 1)}}, {2, {offer("a40", 1, 4, 1)}}};
    const Decision d = decide_fifo(s, offers, {});
    ck_assert(only_action(d).job == 2 && only_action(d).kind == ActionKind::start);
    assert_text(d.waiting.at(1),
                "no nodes that this job may use, and that are up, can hold its grids");
}

TEST(running_jobs_are_left_alone) {
    Snapshot s = two_types();
    s.jobs = {pending(1, 9)};
    s.jobs[0].phase = JobPhase::running;
    ck_assert(decide_fifo(s, {{1, {offer("a40", 1, 4, 1)}}}, {}) == Decision{});
}

TEST(a_thousand_jobs_on_160_nodes_are_decided_at_once) {
    Snapshot s;
    const char* types[] = {"a40", "a100", "h100", "v100"};
    std::vector<NodeIndex> all;
    for (NodeIndex i = 0; i < 160; ++i) {
        s.nodes.push_back(node("n", types[i % 4], 8, i % 9));
        all.push_back(i);
    }
    s.node_sets = {all};
    Offers offers;
    for (JobId id = 1; id <= 1000; ++id) {
        s.jobs.push_back(pending(id, id % 7));
        std::vector<Offer>& list = offers[id].own();
        for (const char* type : types)
            for (const std::int64_t nodes : {1, 2, 4, 8})
                for (const std::int64_t per_node : {1, 2, 4, 8})
                    list.push_back(offer(type, nodes, per_node,
                                         1.0 / static_cast<double>(nodes * per_node + id % 5)));
    }
    double best_ms = 1e9;
    for (int i = 0; i < 5; ++i) {
        const double begin_ms = cpu_ms();
        const Decision d = decide_fifo(s, offers, {});
        best_ms = std::min(best_ms, cpu_ms() - begin_ms);
        ck_assert_uint_eq(d.actions.size() + d.waiting.size(), 1000);
    }
    std::printf("1000 jobs x 64 offers on 160 nodes: %.2f ms\n", best_ms);
    // Whole rounds of this size are timed by tests/bench/pending-jobs; this catches what grows out
    // of bounds, on any machine under any load.
    ck_assert_msg(best_ms < 1000, "%.1f ms", best_ms);
}
