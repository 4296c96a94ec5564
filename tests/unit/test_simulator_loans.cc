// SPDX-License-Identifier: GPL-2.0-or-later
// Inference beside the simulated cluster: curves, who has which node when, what comes back by when.
#include <algorithm>
#include <cmath>

#include "baselines/registry.h"
#include "sim/generate_inference.h"
#include "sim/page.h"
#include "sim/simulator.h"
#include "suite.h"

using namespace arena;
using namespace arena::sim;
using arena::test::assert_refused;
using arena::test::must;

namespace {

constexpr const char* cluster_text =
    "nodes:\n  - {gpu_type: a, count: 4, gpus_per_node: 8, name: t}\n"
    "  - {gpu_type: a, count: 8, gpus_per_node: 8, name: i, inference: true}\n";
constexpr const char* table_text =
    "model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s\n"
    "gpt,1B,64,a,1,4,20\ngpt,1B,64,a,1,8,10\ngpt,1B,64,a,2,8,5.2\ngpt,1B,64,a,4,8,2.8\n";

Workload workload(int jobs, double every_s, double iterations) {
    std::string trace =
        "job_id,submission_time,num_iteration,model_name,batch_size,num_gpu,gpu_type\n";
    for (int i = 0; i < jobs; ++i)
        trace += std::to_string(i) + "," + std::to_string(i * every_s) + "," +
                 std::to_string(static_cast<int>(iterations) * (1 + i % 5)) + ",gpt__1B,64," +
                 std::to_string(i % 3 == 0 ? 16 : 8) + ",a\n";
    WorkloadOptions options;
    options.iteration_divisor = 1;
    return must(bind_workload(must(parse_cluster(cluster_text, "c")), must(parse_trace(trace, "t")),
                              must(parse_throughputs(table_text, "x")), options));
}

SimulationOptions with_loans(bool lend, double elastic_share) {
    SimulationOptions options;
    InferenceGeneratorOptions load{.gpu_type = "", .gpus = 64, .days = 2};
    options.loans.emplace();
    options.loans->curve = must(generate_inference(load));
    options.loans->lend = lend;
    options.elastic_share = elastic_share;
    options.keep_stays = true;
    return options;
}

Metrics run(const Workload& work, const SimulationOptions& options, const char* policy = "aryl") {
    return must(simulate(work, policy, find_policy(policy)->decide, options));
}

}  // namespace

TEST(a_curve_begins_again_after_its_end) {
    const auto curve = must(parse_inference_curve("time_s,gpus\n0,10\n300,20\n600,5\n", "c"));
    const InferenceLoad& load = curve.loads[0];
    ck_assert(load.at(0) == 10 && load.at(299) == 10 && load.at(300) == 20 && load.at(899) == 5);
    ck_assert(load.at(900) == 10 && load.at(1200) == 20);
    ck_assert(load.next_change_s(0) == 300 && load.next_change_s(600) == 900 &&
              load.next_change_s(1000) == 1200);
    const auto one = must(parse_inference_curve("time_s,nodes\n0,3\n", "c"));
    ck_assert(one.in_nodes && one.loads[0].at(1e9) == 3 &&
              std::isinf(one.loads[0].next_change_s(5)));
}

TEST(what_is_no_curve_is_refused_with_its_line) {
    const auto read = [](const char* text) { return parse_inference_curve(text, "c.csv"); };
    assert_refused(read("time_s,gpus\n0,1\n300,nan\n"), "c.csv:3");
    assert_refused(read("time_s,gpus\n0,1\n300,-1\n"), "c.csv:3");
    assert_refused(read("time_s,gpus\n300,1\n0,1\n"), "sort the curve by time_s");
    assert_refused(read("time_s,gpus\n"), "no row");
    assert_refused(read("time_s\n0\n"), "gpus and nodes");
    assert_refused(read("time_s,gpus,nodes\n0,1,1\n"), "gpus and nodes");
    assert_refused(read("gpus\n0\n"), "time_s");
}

TEST(a_generated_load_keeps_within_its_gpus_and_to_its_seed) {
    InferenceGeneratorOptions options{.gpu_type = "", .gpus = 64, .days = 3};
    const auto curve = must(generate_inference(options));
    ck_assert(curve == must(generate_inference(options)));
    double least = 64, most = 0;
    for (const auto& step : curve.loads[0].steps) {
        least = std::min(least, step.amount);
        most = std::max(most, step.amount);
    }
    ck_assert(least >= 8 && least <= 20 && most >= 50 && most <= 64);
    options.seed = 2;
    ck_assert(!(curve == must(generate_inference(options))));
    ck_assert(must(parse_inference_curve(format_inference_curve(curve), "c")) == curve);
    options.high = NAN;
    assert_refused(generate_inference(options), "high");
}

TEST(lent_nodes_come_back_in_time_and_inference_is_never_short_beyond_the_deadline) {
    const Workload work = workload(300, 500, 200);
    const Metrics m = run(work, with_loans(true, 0.5));
    ck_assert_int_eq(m.finished, 300);
    ck_assert(m.loans && m.loans->servers_lent > 0 && m.loans->servers_returned > 0);
    ck_assert(m.loans->late_returns == 0 && m.loans->short_late_s == 0);
    ck_assert(m.loans->preemptions >= m.loans->least_preemptions);
    ck_assert(m.loans->lent_gpu_s > 0 && m.loans->usage_both > 0 && m.loans->usage_both <= 1);
}

TEST(a_job_that_ends_before_the_deadline_is_let_run_and_one_that_does_not_leaves_in_time) {
    const Workload work = workload(300, 500, 200);
    SimulationOptions options = with_loans(true, 0);
    options.loans->rules.deadline_s = 900;
    const Metrics right = run(work, options);
    ck_assert_int_gt(right.loans->let_end, 0);
    ck_assert_int_eq(right.loans->overstayed, 0);
    options.errors.wrong_share = 1;
    const Metrics wrong = run(work, options);
    ck_assert_int_gt(wrong.loans->overstayed, 0);
    options.loans->let_end = false;
    const Metrics none = run(work, options);
    ck_assert(none.loans->let_end == 0 && none.loans->overstayed == 0);
    for (const Metrics* m : {&right, &wrong, &none}) {
        ck_assert_int_eq(m->finished, 300);
        ck_assert(m->loans->late_returns == 0 && m->loans->short_late_s == 0);
    }
}

TEST(jobs_hold_inferences_nodes_only_while_those_are_lent) {
    const Workload work = workload(300, 500, 200);
    SimulationOptions options = with_loans(true, 0.5);
    std::size_t seen = 0;
    options.watch = [&](const Snapshot& snapshot, const Offers&, const PolicyOptions&,
                        const Decision& decision) {
        const auto check = [&](const std::vector<NodeIndex>& nodes, bool may_be_returning) {
            for (const NodeIndex n : nodes) {
                if (n < 4) continue;
                ++seen;
                const NodeState& node = snapshot.nodes[n];
                ck_assert(!node.lent.empty());
                ck_assert(node.returning_s == 0 ||
                          (may_be_returning && snapshot.time_s < node.returning_s));
            }
        };
        for (const JobState& job : snapshot.jobs) check(job.nodes, true);
        for (const Action& action : decision.actions) check(action.nodes, false);
    };
    for (const char* policy : {"aryl", "arena", "fifo"}) run(work, options, policy);
    ck_assert_uint_gt(seen, 0);
}

TEST(a_lent_node_that_is_slow_is_left_and_avoided_and_still_comes_back) {
    const Workload work = workload(300, 500, 200);
    SimulationOptions options = with_loans(true, 1);
    for (std::size_t row = 0; row < 8; ++row) {
        const double start_s = 15000.0 * static_cast<double>(row);
        options.slowdowns.push_back({.start_s = start_s,
                                     .duration_s = 60000,
                                     .node = static_cast<NodeIndex>(row + 2),
                                     .gpus = {0},
                                     .factor = 4,
                                     .row = row});
    }
    options.slowdown.mode = SlowdownMode::mitigate;
    bool restricted = false;
    options.watch = [&](const Snapshot& snapshot, const Offers&, const PolicyOptions&,
                        const Decision&) {
        std::vector<std::int64_t> free(snapshot.nodes.size());
        for (std::size_t n = 0; n < free.size(); ++n)
            free[n] = snapshot.nodes[n].up ? snapshot.nodes[n].total_gpus : 0;
        for (const JobState& job : snapshot.jobs) {
            restricted = restricted || job.node_set != 0;
            for (const NodeIndex n : job.nodes) free[n] -= job.current->grid.gpus_per_node;
            for (const NodeIndex n : snapshot.node_sets[job.node_set])
                ck_assert(snapshot.nodes[n].up);
        }
        for (std::size_t n = 0; n < free.size(); ++n)
            ck_assert_int_eq(snapshot.nodes[n].up ? free[n] : 0, snapshot.nodes[n].free_gpus);
    };
    for (const char* policy : {"aryl", "arena"}) {
        const Metrics m = run(work, options, policy);
        ck_assert_int_eq(m.finished, 300);
        ck_assert(m.loans->servers_returned > 0 && m.loans->late_returns == 0);
        ck_assert(m.slow->events == 8 && m.slow->restarts > 0 && m.slow->lost_gpu_s > 0);
    }
    ck_assert(restricted);
}

TEST(without_loans_no_job_touches_inferences_nodes) {
    const Workload work = workload(100, 500, 200);
    const Metrics m = run(work, with_loans(false, 0.5));
    ck_assert(!m.stays.empty() && m.loans->servers_lent == 0 && m.loans->lent_gpu_s == 0);
    for (const Stay& stay : m.stays)
        for (const std::uint32_t n : stay.nodes) ck_assert_uint_lt(n, 4);
}

TEST(a_checkpoint_longer_than_the_deadline_makes_a_late_return) {
    const Workload work = workload(300, 300, 400);
    SimulationOptions options = with_loans(true, 0);
    options.policy.restart.checkpoint_s = 900;
    const Metrics m = run(work, options);
    ck_assert_int_gt(m.loans->late_returns, 0);
}

TEST(lending_and_elastic_jobs_shorten_the_queue) {
    const Workload work = workload(400, 400, 250);
    const Metrics none = run(work, with_loans(false, 0)), both = run(work, with_loans(true, 0.5));
    ck_assert_double_lt(both.queuing_s.mean, none.queuing_s.mean);
    ck_assert_double_lt(both.jct_s.mean, none.jct_s.mean);
    ck_assert_double_gt(both.loans->usage_both, none.loans->usage_both);
}

TEST(a_curve_that_does_not_fit_the_cluster_is_refused) {
    Workload work = workload(3, 10, 10);
    SimulationOptions options = with_loans(true, 0);
    options.loans->curve.loads[0].gpu_type = "b";
    const auto decide = find_policy("aryl")->decide;
    assert_refused(simulate(work, "aryl", decide, options), "no row of GPU type a");
    options = with_loans(true, 0);
    work.inference_nodes.clear();
    assert_refused(simulate(work, "aryl", decide, options), "inference: true");
}

TEST(the_page_shows_loans) {
    const Workload work = workload(60, 500, 200);
    const std::vector<Metrics> runs{run(work, with_loans(true, 0.5))};
    const std::string page = page_html(work, runs, std::nullopt, {});
    ck_assert(page.find("<h2>Loans</h2>") != std::string::npos);
    ck_assert(page.find("Servers of inference under aryl") != std::string::npos);
    SimulationOptions plain;
    plain.keep_stays = true;
    const std::vector<Metrics> without{run(work, plain)};
    ck_assert(page_html(work, without, std::nullopt, {}).find("Loans") == std::string::npos);
}
