// SPDX-License-Identifier: GPL-2.0-or-later
// Slowdowns in simulations, on cases small enough to work out by hand: what they do to a job, when
// they are found, and what the answers to them gain.
#include <fmt/format.h>

#include <cmath>

#include "baselines/fcfs.h"
#include "baselines/registry.h"
#include "sim/simulator.h"
#include "sim/slow/slow_cluster.h"
#include "suite.h"
#include "tests/lab/simulation/slowdowns_file.h"

using namespace arena;
using namespace arena::sim;
using arena::slowdown::Cause;
using arena::test::assert_refused;
using arena::test::must;

namespace {

constexpr double restart_s = 50;  ///< of two GPUs: 30 s of checkpoint, 10 s each

void assert_near(double got, double wanted) {
    ck_assert_msg(std::abs(got - wanted) <= 1e-9 * std::abs(wanted), "%.12g is not %.12g", got,
                  wanted);
}

/// Nodes n1, n2, ... of two GPUs.
Workload workload_of(int nodes, const std::string& jobs) {
    const auto cluster = must(parse_cluster(
        fmt::format("nodes:\n  - {{gpu_type: a40, count: {}, gpus_per_node: 2}}\n", nodes),
        "c.yaml"));
    const auto trace = must(parse_trace(
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,gpu_type\n" +
            jobs,
        "t.csv"));
    const auto table = must(
        parse_throughputs("model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s\n"
                          "bert,1B,8,a40,1,2,5\nbert,1B,8,a40,2,2,3\n",
                          "p.csv"));
    WorkloadOptions options;
    options.iteration_divisor = 1;
    return must(bind_workload(cluster, trace, table, options));
}
/// 100 iterations of 5 s on the two GPUs of n1.
const std::string one_job = "1,0,100,bert__1B,,8,2,a40\n";

SimulationOptions options_of(std::vector<Slowdown> slowdowns,
                             SlowdownMode mode = SlowdownMode::off) {
    SimulationOptions options;
    options.slowdowns = std::move(slowdowns);
    for (std::size_t row = 0; row < options.slowdowns.size(); ++row)
        options.slowdowns[row].row = row;
    options.slowdown.mode = mode;
    options.keep_stays = true;
    return options;
}
Metrics run(const Workload& workload, const SimulationOptions& options,
            PolicyFunction policy = decide_fcfs) {
    return must(simulate(workload, "test", policy, options));
}
Slowdown slow_gpu(double start_s, double duration_s, double factor, NodeIndex node = 0) {
    return {.start_s = start_s, .duration_s = duration_s, .node = node, .factor = factor};
}

/// Eight ranks on two nodes of four GPUs; an iteration of 10 s, a fifth of it communication.
SlowJob eight_ranks(std::int64_t pp, std::int64_t dp, std::int64_t tp) {
    SlowJob job{.iteration_s = 10, .communication_share = 0.2};
    for (NodeIndex node = 0; node < 2; ++node)
        for (std::int64_t gpu = 0; gpu < 4; ++gpu) job.devices.emplace_back(node, gpu);
    const auto stages = static_cast<std::size_t>(pp);
    job.plan.stage_layers.assign(stages, 4);
    job.plan.stage_dp.assign(stages, dp);
    job.plan.stage_tp.assign(stages, tp);
    job.plan.num_micro_batches = 8;
    return job;
}

}  // namespace

TEST(a_synchronous_job_runs_at_the_pace_of_its_slowest_part) {
    const SlowJob job = eight_ranks(1, 8, 1);
    const Slowdown gpu{.node = 1, .gpus = {2}, .factor = 3};
    const Slowdown link{.cause = Cause::communication, .node = 0, .peer = 1, .factor = 4};
    const Slowdown elsewhere{.node = 5, .factor = 9};
    assert_near(slow_iteration_s(job, slow_parts(job, std::vector{elsewhere})), 10);
    assert_near(slow_iteration_s(job, slow_parts(job, std::vector{gpu})), 8 * 3 + 2);
    assert_near(slow_iteration_s(job, slow_parts(job, std::vector{link})), 8 + 2 * 4);
    assert_near(slow_iteration_s(job, slow_parts(job, std::vector{gpu, link, gpu})), 8 * 3 + 2 * 4);
    const Slowdown hooked{.node = 0, .gpus = {1}, .delay_s = 2.5};
    assert_near(slow_iteration_s(job, slow_parts(job, std::vector{hooked})), 12.5);
    SlowJob unknown = job;
    unknown.communication_share = -1;
    assert_near(slow_iteration_s(unknown, slow_parts(unknown, std::vector{link})), 40);
    assert_near(slow_iteration_s(unknown, slow_parts(unknown, std::vector{gpu, link})), 40);
}

TEST(a_link_slows_those_that_have_both_its_ends) {
    SlowJob job = eight_ranks(1, 8, 1);
    const Slowdown within{.cause = Cause::communication,
                          .node = 0,
                          .gpus = {1},
                          .peer = 0,
                          .peer_gpu = 3,
                          .factor = 2};
    ck_assert(meets(job, within));
    job.devices.erase(job.devices.begin() + 3);
    ck_assert(!meets(job, within));
    const Slowdown among{.cause = Cause::communication, .node = 0, .peer = 0, .factor = 2};
    ck_assert(meets(job, among));
    job.devices.erase(job.devices.begin(), job.devices.begin() + 2);
    ck_assert(!meets(job, among));
}

TEST(a_split_gives_slow_replicas_fewer_micro_batches) {
    // Ranks 4 to 7 of tp 2, dp 2, pp 2 are the second stage: rank 6 is of replica 1.
    const SlowJob job = eight_ranks(2, 2, 2);
    const Slowdown gpu{.node = 1, .gpus = {2}, .factor = 2};
    const SlowParts parts = slow_parts(job, std::vector{gpu});
    const auto counts = best_split(job, parts);
    // (m + 1) x 2 against (16 - m + 1) x 1: 11 and 5, where 8 and 8 take 18.
    ck_assert(counts == (std::vector<std::int64_t>{11, 5}));
    assert_near(slow_iteration_s(job, parts, counts), 8 * 12.0 / 9 + 2);
    // The devices are sound again, and the split is still there.
    assert_near(slow_iteration_s(job, slow_parts(job, {}), counts), 8 * 12.0 / 9 + 2);
    ck_assert(best_split(eight_ranks(4, 1, 2), slow_parts(job, {})).empty());
}

TEST(a_slow_gpu_makes_a_job_end_later_by_what_it_lost) {
    const Workload workload = workload_of(1, one_job);
    // 200 s at half the pace: 20 iterations instead of 40.
    const Metrics m = run(workload, options_of({slow_gpu(100, 200, 2)}));
    assert_near(m.makespan_s, restart_s + 500 + 100);
    assert_near(m.slow->lost_gpu_s, 2 * 100);
    ck_assert_int_eq(m.slow->met, 1);
    ck_assert_int_eq(m.slow->detected, 0);
    assert_near(m.stays.front().iteration_s, 6);
    assert_near(run(workload, options_of({})).makespan_s, restart_s + 500);
}

TEST(factors_of_one_change_nothing) {
    const Workload workload = workload_of(3, one_job + "2,7,50,bert__1B,,8,4,a40\n");
    for (const Policy& policy : policies()) {
        SimulationOptions options =
            options_of({slow_gpu(60, 333, 1), slow_gpu(100, 77, 1, 1)}, SlowdownMode::mitigate);
        SimulationOptions sound = options_of({});
        options.only_events = sound.only_events = policy.only_events;
        const Metrics with = run(workload, options, policy.decide);
        const Metrics without = run(workload, sound, policy.decide);
        assert_near(with.makespan_s, without.makespan_s);
        assert_near(with.jct_s.mean, without.jct_s.mean);
        ck_assert_int_eq(with.decisions, without.decisions);
        ck_assert_int_eq(with.slow->detected, 0);
    }
}

TEST(a_watched_job_finds_it_out_some_iterations_later) {
    const Workload workload = workload_of(1, one_job);
    const Metrics m = run(workload, options_of({slow_gpu(100, 200, 2)}, SlowdownMode::watch));
    ck_assert_int_eq(m.slow->detected, 1);
    assert_near(m.slow->outcomes.front().detected_s, 100 + 5 * 10);
    // 6.86 s of validation, of which half would have been lost anyway.
    assert_near(m.makespan_s, restart_s + 500 + 100 + 6.86 / 2);
    // One that is over before five iterations are is not seen.
    const Metrics brief = run(workload, options_of({slow_gpu(100, 40, 2)}, SlowdownMode::watch));
    ck_assert_int_eq(brief.slow->detected, 0);
}

TEST(a_job_leaves_a_slow_node_once_it_has_cost_as_much_as_the_move) {
    const Workload workload = workload_of(2, one_job);
    const Metrics m = run(workload, options_of({slow_gpu(100, 1e6, 3)}, SlowdownMode::mitigate));
    ck_assert_int_eq(m.slow->restarts, 1);
    ck_assert(m.slow->outcomes.front().answers.contains("S4"));
    ck_assert_uint_eq(m.stays.size(), 2);
    ck_assert(m.stays[0].nodes == std::vector<std::uint32_t>{0});
    ck_assert(m.stays[1].nodes == std::vector<std::uint32_t>{1});
    // Detected after 75 s, paused; 50 s of that were lost, as much as the move costs.
    assert_near(m.stays[0].to_s, 100 + 75 + 6.86);
    // 10 iterations before, 5 while slow; 85 on the other node.
    assert_near(m.makespan_s, m.stays[1].from_s + restart_s + 85 * 5);
    SimulationOptions rigid = options_of({slow_gpu(100, 1e6, 3)}, SlowdownMode::mitigate);
    rigid.elastic_share = 0;
    ck_assert_int_eq(run(workload, rigid).slow->restarts, 0);
    // With nowhere to go, it stays.
    ck_assert_int_eq(
        run(workload_of(1, one_job), options_of({slow_gpu(100, 1e6, 3)}, SlowdownMode::mitigate))
            .slow->restarts,
        0);
}

TEST(a_node_is_avoided_by_all_when_two_jobs_found_it_slow) {
    std::vector<NodeState> nodes(4);
    for (NodeState& node : nodes) node = {.gpu_type = "a40", .total_gpus = 2};
    SlowdownRules rules;
    rules.recheck_s = 400;
    SlowCluster cluster({slow_gpu(10, 500, 2, 1)}, nodes, rules);
    ck_assert(cluster.advance(10));
    cluster.note(1, std::vector<NodeIndex>{1}, 20);
    cluster.note(1, std::vector<NodeIndex>{1}, 30);
    ck_assert(cluster.quarantined().empty());
    cluster.note(2, std::vector<NodeIndex>{1}, 40);
    ck_assert(cluster.quarantined() == std::vector<NodeIndex>{1});
    // No more than the cap: a later one takes its place.
    cluster.note(1, std::vector<NodeIndex>{2}, 50);
    cluster.note(2, std::vector<NodeIndex>{2}, 50);
    ck_assert_uint_eq(cluster.quarantined().size(), 1);
    assert_near(cluster.next_s(), 440);
    cluster.advance(460);  // slow still, so held again; the other was never
    ck_assert(cluster.quarantined() == std::vector<NodeIndex>{1});
    cluster.advance(510);
    cluster.advance(860);
    ck_assert(cluster.quarantined().empty());
    ck_assert(std::isinf(cluster.next_s()));
}

TEST(gpus_are_given_from_the_lowest_and_come_back) {
    const std::vector<NodeState> nodes{{.total_gpus = 4}, {.total_gpus = 4}};
    SlowCluster cluster({}, nodes, {});
    const std::vector<NodeIndex> both{0, 1}, first{0};
    const auto a = cluster.take(both, 2);
    ck_assert(a == (std::vector<Device>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
    ck_assert(cluster.take(first, 1) == (std::vector<Device>{{0, 2}}));
    cluster.give_back(a);
    ck_assert(cluster.take(first, 3) == (std::vector<Device>{{0, 0}, {0, 1}, {0, 3}}));
}

TEST(tables_of_slowdowns_are_read_in_three_forms) {
    const std::vector<NodeState> nodes{{.name = "a1", .total_gpus = 8},
                                       {.name = "a2", .total_gpus = 8}};
    const auto read = [&](const std::string& text) {
        return parse_slowdowns(text, "s.csv", nodes, 1.5);
    };
    const auto own =
        must(read("time_s,duration_s,node,gpu,peer,peer_gpu,factor,kind\n"
                  "9,5,a2,,,,2,compute\n3,5,0,4 1,1,7,3,communication\n"));
    ck_assert(own[0] == (Slowdown{.start_s = 3,
                                  .duration_s = 5,
                                  .cause = Cause::communication,
                                  .node = 0,
                                  .gpus = {1, 4},
                                  .peer = 1,
                                  .peer_gpu = 7,
                                  .factor = 3,
                                  .row = 0}));
    ck_assert(own[1] ==
              (Slowdown{.start_s = 9, .duration_s = 5, .node = 1, .factor = 2, .row = 1}));
    const std::string pairs = "start_s,duration_s,node_a,gpu_a,node_b,gpu_b,kind_0comp_1comm\n";
    const auto pair = must(read(pairs + "1,2,1,3,1,3,0\n2,2,0,0,1,0,1\n3,2,0,4,0,3,1\n"));
    ck_assert(pair[0].gpus == std::vector<std::int64_t>{3} && pair[0].factor == 1.5);
    ck_assert(pair[1].gpus.empty() && pair[1].peer == 1 && pair[1].peer_gpu == every_gpu);
    ck_assert(pair[2].gpus == std::vector<std::int64_t>{4} && pair[2].peer_gpu == 3);
    const auto delays =
        must(read("start_s,duration_s,node,gpus,delay_s_per_hook_or_peer_node,kind_0comp_1comm\n"
                  "1,2,1,3 7,0.3,0\n2,2,0,0,1,1\n"));
    ck_assert(delays[0].delay_s == 0.3 && delays[0].factor == 1 && delays[0].gpus.size() == 2);
    ck_assert(delays[1].cause == Cause::communication && delays[1].peer == 1);
    ck_assert_str_eq(place_of(delays[1], nodes).c_str(), "a1 + a2");
    assert_refused(read("a,b\n1,2\n"), "duration_s");
    assert_refused(read("duration_s,b\n1,2\n"), "no table of slowdowns");
    assert_refused(read(pairs + "1,2,2,3,1,3,0\n"), "s.csv:2: node_a: \"2\" is no node");
    assert_refused(read(pairs + "1,2,1,8,1,3,0\n"), "gpu_a: \"8\" is no GPU of a2");
    assert_refused(read(pairs + "1,2,1,3,1,3,1\n"), "two different GPUs");
    assert_refused(read(pairs + "1,0,1,3,1,3,0\n"), "duration_s: \"0\"");
    assert_refused(read("time_s,duration_s,node,factor,kind\n1,1,0,0.5,compute\n"),
                   "factor: \"0.5\"");
    assert_refused(read("time_s,duration_s,node,factor,kind\n1,1,0,2,slow\n"),
                   "kind: \"slow\" is not compute or communication");
    assert_refused(read("time_s,duration_s,node,factor,kind\n1,1,0,2,communication\n"),
                   "peer: is given where kind is communication");
}
