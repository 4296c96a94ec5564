// SPDX-License-Identifier: GPL-2.0-or-later
// The page of `arena simulate --html`: well-formed, alone in the world, bounded, and true to the
// runs.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "baselines/registry.h"
#include "page_reader.h"
#include "sim/generate.h"
#include "sim/page.h"
#include "sim/page_parts.h"
#include "sim/simulator.h"
#include "suite.h"

using namespace arena;
using namespace arena::sim;

namespace {

constexpr std::string_view cluster_yaml =
    "nodes:\n  - {gpu_type: a40, count: 4, gpus_per_node: 2}\n  - {gpu_type: v100, count: 1, "
    "gpus_per_node: 4}\n";
constexpr std::string_view table_csv =
    "model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s\n"
    "bert,1B,8,a40,1,1,8\nbert,1B,8,a40,1,2,5\nbert,1B,8,a40,2,2,3\nbert,1B,8,v100,1,4,2\n";

Workload small_workload() {
    const Cluster cluster = parse_cluster(cluster_yaml, "c").value();
    const Throughputs table = parse_throughputs(table_csv, "t").value();
    GeneratorOptions generator;
    generator.jobs = 60;
    generator.load = 1.2;
    const auto trace = generate_trace(cluster, table, generator).value();
    return bind_workload(cluster, trace, table, {}).value();
}

std::vector<Metrics> run(const Workload& workload, const std::vector<std::string>& names) {
    SimulationOptions options;
    options.keep_stays = true;
    std::vector<Metrics> runs;
    for (const std::string& name : names) {
        runs.push_back(simulate(workload, name, find_policy(name)->decide, options).value());
    }
    return runs;
}

TEST(the_page_is_well_formed_and_needs_nothing_else) {
    const Workload workload = small_workload();
    Bound bound{60, 12345, 1234};
    const std::string page = page_html(workload, run(workload, {"arena", "fcfs", "backfill"}),
                                       bound, {{"trace", "a.csv"}});
    assert_stands_alone(page);
    ck_assert_uint_eq(count(page, "class=\"gantt\""), 3);
    ck_assert(page.find("above the bound") != std::string::npos);
    ck_assert(page == page_html(workload, run(workload, {"arena", "fcfs", "backfill"}), bound,
                                {{"trace", "a.csv"}}));
}

TEST(names_from_files_are_text_and_nothing_else) {
    const std::string evil = "</script><script>alert(1)</script>\"'&\x01\xff";
    Workload workload = small_workload();
    std::vector<Metrics> runs = run(workload, {"arena"});
    for (SimJob& job : workload.jobs) job.name = evil;
    for (Profile& profile : workload.profiles) profile.model = evil;
    for (NodeState& node : workload.nodes) node.gpu_type = node.name = evil;
    for (std::string& type : workload.gpu_types) type = evil;
    for (Profile& profile : workload.profiles) {
        for (Offer& offer : profile.offers.own()) offer.grid.gpu_type = evil;
    }
    runs[0].policy = evil;
    const std::string page = page_html(workload, runs, std::nullopt, {{evil, evil}});
    XmlReader reader(page);
    ck_assert_str_eq(reader.read().c_str(), "");
    ck_assert_uint_eq(count(page, "<script>"), 1);
    ck_assert(page.find("alert(1)") != std::string::npos);
    ck_assert(page.find("<script>alert") == std::string::npos);
}

TEST(every_stay_is_drawn_and_the_charts_add_up_to_the_numbers) {
    const Workload workload = small_workload();
    const std::vector<Metrics> runs = run(workload, {"arena"});
    const Metrics& m = runs[0];
    const std::string page = page_html(workload, runs, std::nullopt, {});
    const auto long_enough = std::count_if(m.stays.begin(), m.stays.end(),
                                           [](const Stay& s) { return s.to_s > s.from_s; });
    ck_assert_int_eq(static_cast<long>(count(page, "<path data-j=")), long_enough);
    ck_assert(page.find("Drawn are the") == std::string::npos);
    const auto mean = [](const Chart& chart) {
        double sum = 0;
        const auto& points = chart.series[0].points;
        for (std::size_t i = 0; i + 1 < points.size(); ++i) sum += points[i].second;
        return sum / static_cast<double>(points.size() - 1);
    };
    ck_assert_double_eq_tol(mean(throughput_chart(workload, runs, m.makespan_s)), m.throughput_mean,
                            1e-6 * m.throughput_mean);
    ck_assert_double_eq_tol(mean(utilisation_chart(workload, runs, m.makespan_s)),
                            m.gpu_utilization, 1e-9);
    const Chart distribution = jct_chart(runs);
    const auto& jct = distribution.series[0].points;
    ck_assert_double_eq(jct.back().second, 1);
    ck_assert_double_eq(jct.back().first, m.jct_s.max);
    ck_assert(std::is_sorted(jct.begin(), jct.end()));
}

TEST(ratios_beside_stock_policies_have_a_chart_and_a_row_each) {
    const Workload workload = small_workload();
    std::vector<Metrics> runs = run(workload, {"arena", "backfill"});
    ck_assert(page_html(workload, runs, std::nullopt, {}).find("beside") == std::string::npos);
    const std::vector<Metrics> stock = run(workload, {"backfill", "fcfs"});
    for (Metrics& m : runs)
        for (const Metrics& other : stock) m.beside.push_back(beside_of(m, other));
    const std::string page = page_html(workload, runs, std::nullopt, {});
    XmlReader reader(page);
    ck_assert_str_eq(reader.read().c_str(), "");
    ck_assert_uint_eq(count(page, "<figcaption>Jobs that took at most so many times"), 2);
    ck_assert_uint_eq(count(page, "<td>backfill</td><td>1.000</td><td>1.000</td>"), 1);
    const Chart chart = beside_chart(runs, 0);
    ck_assert_uint_eq(chart.series.size(), 2);
    const auto& points = chart.series[0].points;
    ck_assert(std::is_sorted(points.begin(), points.end()));
    ck_assert_double_eq(points.back().second, 1);
    ck_assert_double_eq(points.back().first, runs[0].beside[0].ratio.max);
    ck_assert(points.front().first < 1);
    for (const auto& [ratio, share] : chart.series[1].points) ck_assert_double_eq(ratio, 1);
}

TEST(plans_stand_on_the_shapes) {
    Workload workload = small_workload();
    const std::vector<Metrics> runs = run(workload, {"arena"});
    for (Offer& offer : workload.profiles[0].offers.own()) {
        offer.plan.stage_layers = {12, 12};
        offer.plan.stage_dp = offer.plan.stage_tp = {1, 1};
        offer.plan.micro_batch = 4;
        offer.plan.num_micro_batches = 16;
    }
    const std::string page = page_html(workload, runs, std::nullopt, {});
    ck_assert(page.find("4xv100 pp2,dp1,tp1,mb4x16") != std::string::npos);
}

/// 1,280 GPUs and 1,000 jobs that each stay a hundred times on four nodes that are no neighbours.
TEST(a_page_stays_under_six_mebibytes) {
    Workload workload;
    workload.gpu_types = {"a40"};
    for (int n = 0; n < 640; ++n) {
        workload.nodes.push_back({"node" + std::to_string(n), "a40", 2, 2, 1, 1});
    }
    Profile profile{"bert__1B", 8, {}};
    Offer offer;
    offer.grid = {"a40", 4, 1, 1};
    offer.estimate.iteration_s = 1;
    profile.offers = {offer};
    workload.profiles = {profile};
    Metrics m;
    m.makespan_s = 100000;
    m.jobs = 1000;
    m.outcomes.resize(1000);
    for (std::uint32_t j = 0; j < 1000; ++j) {
        workload.jobs.push_back(
            {"11a6bdc7-41f3-ca1d-6fb9-e58b8d9dff84-" + std::to_string(j), 0, 1, 0, 0, 0, 0, 0});
        for (std::uint32_t k = 0; k < 100; ++k) {
            const double from_s = 1000.0 * k + j % 7, to_s = 1000.0 * (k + 1);
            const std::uint32_t first = j % 160;
            m.stays.push_back({j,
                               0,
                               from_s,
                               from_s + 70,
                               to_s,
                               1,
                               {first, first + 160, first + 320, first + 480}});
        }
    }
    for (const std::size_t policies : {1U, 20U}) {
        std::vector<Metrics> runs(policies, m);
        const std::string page = page_html(workload, runs, std::nullopt, {});
        ck_assert_uint_le(page.size(), 6U << 20);
        ck_assert(page.find("largest of 100,000 stays") != std::string::npos);
        const std::size_t drawn = count(page, "<path data-j=");
        ck_assert_uint_le(drawn, PageLimits{}.stays);
        ck_assert_uint_ge(drawn, PageLimits{}.stays - policies);
        XmlReader reader(page);
        ck_assert_str_eq(reader.read().c_str(), "");
    }
}

TEST(nothing_run_and_nothing_done_are_pages_too) {
    const Workload workload = small_workload();
    Metrics idle;
    idle.policy = "idle";
    for (const std::vector<Metrics>& runs : {std::vector<Metrics>{}, std::vector<Metrics>{idle}}) {
        const std::string page = page_html(workload, runs, Bound{60, 10, 9}, {});
        XmlReader reader(page);
        ck_assert_str_eq(reader.read().c_str(), "");
        ck_assert(page.find("nan") == std::string::npos);
        ck_assert(page.find("inf") == std::string::npos);
    }
}

TEST(times_and_ticks_read_well) {
    ck_assert_str_eq(short_time(45).c_str(), "45 s");
    ck_assert_str_eq(short_time(5400).c_str(), "1.5 h");
    ck_assert_str_eq(short_time(600000).c_str(), "6.94 d");
    ck_assert_str_eq(readable(68046.2).c_str(), "68,046");
    ck_assert_str_eq(readable(123).c_str(), "123");
    ck_assert_str_eq(readable(2.749).c_str(), "2.75");
    for (const double most : {0.5, 7.0, 3600.0, 600000.0, 5e6, 1e9}) {
        const auto ticks = time_ticks(most, 10);
        ck_assert_uint_ge(ticks.size(), 1);
        ck_assert_uint_le(ticks.size(), 12);
        ck_assert_double_le(ticks.back(), most);
    }
}

}  // namespace
