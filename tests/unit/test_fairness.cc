// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `arena` towards people: shares of accounts, priorities, finish-time fairness, aging. On
// generated traces that ask for more than there is.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "baselines/registry.h"
#include "sim/generate.h"
#include "sim/simulator.h"
#include "suite.h"

using namespace arena;
using namespace arena::sim;
using arena::test::must;

namespace {

/// Two types, three models, counts 1 to 8 with falling returns.
Throughputs small_table() {
    std::string text = "model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s\n";
    const std::map<std::string, double> models{{"a", 1.9}, {"b", 1.7}, {"c", 1.5}};
    for (const auto& [model, gain] : models) {
        for (const auto& [type, speed] : std::map<std::string, double>{{"p", 1.0}, {"q", 1.6}}) {
            double time_s = 8 / speed;
            for (int gpus = 1; gpus <= 8; gpus *= 2, time_s /= gain) {
                text += fmt::format("{},1B,8,{},{},{},{:.4f}\n", model, type, std::max(1, gpus / 4),
                                    std::min(gpus, 4), time_s);
            }
        }
    }
    return *parse_throughputs(text, "t.csv");
}

Cluster small_cluster(const std::string& accounts = "") {
    return *parse_cluster(
        "nodes:\n  - {gpu_type: p, count: 8, gpus_per_node: 4}\n"
        "  - {gpu_type: q, count: 8, gpus_per_node: 4}\n" +
            accounts,
        "c.yaml");
}

struct Run {
    Workload workload;
    Metrics metrics;
};

Run run(const Cluster& cluster, const GeneratorOptions& generator, std::string_view policy,
        Objective objective = Objective::jct, double max_time_s = 0, bool by_shares = false) {
    const Throughputs table = small_table();
    const auto trace = must(generate_trace(cluster, table, generator));
    auto workload = must(bind_workload(cluster, trace, table, {}));
    SimulationOptions options;
    options.keep_stays = true;
    options.policy.objective = objective;
    options.priority_by_shares = by_shares;
    options.policy.order = QueueOrder::value;
    if (max_time_s > 0) options.max_time_s = max_time_s;
    auto metrics = must(simulate(workload, policy, find_policy(policy)->decide, options));
    return {std::move(workload), std::move(metrics)};
}

/// GPU-seconds that the accounts held between two times.
std::map<std::string, double> held(const Run& r, double from_s, double to_s) {
    std::map<std::string, double> out;
    for (const Stay& stay : r.metrics.stays) {
        const SimJob& job = r.workload.jobs[stay.job];
        const auto gpus = r.workload.profiles[job.profile].offers[stay.offer].grid.gpus();
        const double seconds = std::min(to_s, stay.to_s) - std::max(from_s, stay.from_s);
        if (seconds > 0) {
            out[r.workload.accounts[job.account]] += seconds * static_cast<double>(gpus);
        }
    }
    return out;
}

GeneratorOptions saturation(std::uint64_t seed) {
    GeneratorOptions g;
    g.jobs = 600;
    g.load = 3;
    g.seed = seed;
    g.odd_share = 0;
    return g;
}

}  // namespace

TEST(accounts_get_their_shares_within_five_points) {
    for (const std::uint64_t seed : {1, 2, 3}) {
        GeneratorOptions g = saturation(seed);
        g.accounts = {{"physics", 1}, {"biology", 1}};  // equal demand, unequal shares
        const double span_s = run(small_cluster(), g, "fcfs").workload.jobs.back().submit_s;
        const auto share = [&](const std::string& shares) {
            const Run r = run(small_cluster(shares), g, "arena", Objective::jct, span_s);
            auto gpu_s = held(r, span_s / 4, span_s);
            return gpu_s["physics"] / (gpu_s["physics"] + gpu_s["biology"]);
        };
        const double kept = share("accounts: {physics: 70, biology: 30}\n");
        const double free = share("");
        printf("# seed %d: %.3f with shares, %.3f without\n", static_cast<int>(seed), kept, free);
        fflush(stdout);
        ck_assert_msg(kept >= 0.65 && kept <= 0.75, "seed %d: %.3f", static_cast<int>(seed), kept);
        ck_assert_msg(free < 0.65, "without shares %.3f: the test shows nothing", free);
    }
}

TEST(an_account_alone_gets_everything_whatever_its_share) {
    GeneratorOptions g = saturation(4);
    g.jobs = 100;
    g.accounts = {{"biology", 1}};
    const Run with = run(small_cluster("accounts: {physics: 70, biology: 30}\n"), g, "arena");
    const Run without = run(small_cluster(), g, "arena");
    ck_assert_double_eq_tol(with.metrics.jct_s.mean, without.metrics.jct_s.mean, 1e-6);
}

TEST(higher_priority_waits_less) {
    GeneratorOptions g = saturation(5);
    g.priorities = 3;
    const Run r = run(small_cluster(), g, "arena");
    double waited[3] = {0, 0, 0};
    int jobs[3] = {0, 0, 0};
    for (std::size_t i = 0; i < r.workload.jobs.size(); ++i) {
        const auto level = static_cast<std::size_t>(r.workload.jobs[i].priority);
        waited[level] += r.metrics.outcomes[i].queuing_s;
        ++jobs[level];
    }
    for (int p = 0; p < 3; ++p) waited[p] /= jobs[p];
    printf("# mean wait by priority: %.0f, %.0f, %.0f s\n", waited[0], waited[1], waited[2]);
    fflush(stdout);
    ck_assert(waited[0] > waited[1] && waited[1] > waited[2]);
}

TEST(objective_fairness_keeps_the_worst_slowdown_low) {
    for (const std::uint64_t seed : {6, 7}) {
        const GeneratorOptions g = saturation(seed);
        const Run fair = run(small_cluster(), g, "arena", Objective::fairness);
        const Run fcfs = run(small_cluster(), g, "fcfs");
        const double p99 = fair.metrics.finish_time_fairness.p99;
        std::size_t beyond = 0;
        for (std::size_t i = 0; i < fair.metrics.outcomes.size(); ++i) {
            beyond += fair.metrics.outcomes[i].jct_s > 3 * fcfs.metrics.outcomes[i].jct_s ? 1 : 0;
        }
        printf("# seed %d: p99 %.2f (fcfs %.2f), %zu jobs beyond 3 x FCFS\n",
               static_cast<int>(seed), p99, fcfs.metrics.finish_time_fairness.p99, beyond);
        fflush(stdout);
        ck_assert_msg(p99 <= 2, "p99 %.2f", p99);
        ck_assert(fcfs.metrics.finish_time_fairness.p99 > 2);
        ck_assert_msg(beyond * 100 <= fair.metrics.outcomes.size(), "%zu jobs", beyond);
    }
}

/// A job of a hundred hours on all eight GPUs, and short ones that never stop coming.
TEST(an_old_blocked_job_starts_within_a_week) {
    const auto table = parse_throughputs(
        "model,params,global_batch,gpu_type,num_nodes,gpus_per_node,"
        "iter_time_s\nbig,1B,8,p,1,8,10\nsmall,1B,8,p,1,1,10\n",
        "t.csv");
    const auto cluster =
        parse_cluster("nodes: [{gpu_type: p, count: 1, gpus_per_node: 8}]", "c.yaml");
    std::string text =
        "job_id,submission_time,num_iteration,model_name,batch_size,num_gpu,gpu_type\n"
        "s0,0,2000,small__1B,8,1,p\nbig,1,180000,big__1B,8,8,p\n";
    for (int i = 1; i < 1800; ++i)
        text += fmt::format("s{},{},2000,small__1B,8,1,p\n", i, 2 + 450 * i);
    const auto workload = must(bind_workload(*cluster, *parse_trace(text, "j.csv"), *table, {}));
    SimulationOptions options;
    options.keep_stays = true;
    options.policy.order = QueueOrder::value;
    const auto m = must(simulate(workload, "arena", find_policy("arena")->decide, options));
    double first_s = 1e300;
    for (const Stay& stay : m.stays) {
        if (workload.jobs[stay.job].name == "big") first_s = std::min(first_s, stay.from_s);
    }
    ck_assert_msg(first_s <= 7 * 86400 + 600, "started at %.0f s", first_s);
    ck_assert_msg(first_s >= 86400, "started at %.0f s: nothing blocked it", first_s);
}

/// More jobs than GPUs wait beyond the bound for weeks: each start has to be of use, not only the
/// next one's victim.
TEST(beyond_the_bound_jobs_do_not_only_start_each_other_anew) {
    GeneratorOptions generator;
    generator.jobs = 600;
    generator.load = 1.3;
    generator.median_s = 40000;
    generator.seed = 4;
    const Metrics ours = run(small_cluster(), generator, "arena").metrics;
    const Metrics fifo = run(small_cluster(), generator, "backfill").metrics;
    printf("# overload: arena %.0f s, %.2f restarts per job, backfill %.0f s, %.1f days\n",
           ours.jct_s.mean, static_cast<double>(ours.restarts) / 600, fifo.jct_s.mean,
           ours.makespan_s / 86400);
    fflush(stdout);
    ck_assert(ours.finished == 600 && ours.makespan_s > 14 * 86400);
    ck_assert(ours.jct_s.mean < 0.5 * fifo.jct_s.mean);
    ck_assert_int_le(ours.restarts, 10 * 600);
}

TEST(priorities_by_shares_hold_the_shares_of_accounts) {
    for (const std::uint64_t seed : {1, 2, 3}) {
        GeneratorOptions g = saturation(seed);
        g.accounts = {{"physics", 1}, {"biology", 1}};  // equal demand, unequal shares
        const Cluster cluster = small_cluster("accounts: {physics: 70, biology: 30}\n");
        const double span_s = run(cluster, g, "fcfs").workload.jobs.back().submit_s;
        const auto physics = [&](bool by_shares) {
            auto gpu_s =  // all that was held counts: there is no decay
                held(run(cluster, g, "backfill", Objective::jct, span_s, by_shares), 0, span_s);
            return gpu_s["physics"] / (gpu_s["physics"] + gpu_s["biology"]);
        };
        printf("# seed %d: physics %.3f by shares, %.3f by submission\n", static_cast<int>(seed),
               physics(true), physics(false));
        fflush(stdout);
        ck_assert_double_eq_tol(physics(true), 0.7, 0.05);
        ck_assert_double_lt(physics(false), 0.6);
    }
}

TEST(each_job_is_compared_with_itself_under_another_policy) {
    Metrics ours, other;
    other.policy = "backfill";
    const auto add = [&](double ours_s, bool ended, double other_s, bool other_ended) {
        ours.outcomes.push_back({.jct_s = ours_s, .finished = ended});
        other.outcomes.push_back({.jct_s = other_s, .finished = other_ended});
    };
    add(50, true, 100, true);
    add(100, true, 100 * (1 - 1e-12), true);  // sums of times in another order
    add(105, true, 100, true);
    add(111, true, 100, true);
    add(250, true, 100, true);
    add(900, false, 300, true);   // at least so much later
    add(450, true, 900, false);   // at most half of it
    add(900, false, 900, false);  // nothing is known
    const Beside b = beside_of(ours, other);
    ck_assert_str_eq(b.policy.c_str(), "backfill");
    ck_assert(b.jobs == 8 && b.unfinished == 3 && b.unfinished_in_both == 1);
    ck_assert_double_eq(b.above_1, 4.0 / 8);
    ck_assert_double_eq(b.above_1_1, 3.0 / 8);
    ck_assert_double_eq(b.above_2, 2.0 / 8);
    ck_assert_double_eq_tol(b.ratio.mean, (0.5 + 1 + 1.05 + 1.11 + 2.5 + 3 + 0.5 + 1) / 8, 1e-9);
    ck_assert_double_eq(b.ratio.max, 3);
    ck_assert_uint_eq(b.ratios.size(), 8);
    ck_assert_double_eq(b.ratios[4], 2.5);
    ck_assert(beside_of({}, {}).jobs == 0 && beside_of({}, {}).above_1 == 0);
}

// Whole simulations, maybe on a busy machine.
SUITE({.timeout_s = 300});
