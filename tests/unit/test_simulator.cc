// SPDX-License-Identifier: GPL-2.0-or-later
// The simulator's rules on cases small enough to work out by hand, its readers' refusals, and the
// published yardstick (fcfs and EASY on the Philly trace) where the reference data is at hand.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "baselines/backfill.h"
#include "baselines/fcfs.h"
#include "baselines/registry.h"
#include "philly.h"
#include "sim/generate.h"
#include "sim/simulator.h"
#include "suite.h"

using namespace arena;
using namespace arena::sim;
using arena::test::assert_refused;
using arena::test::assert_text;
using arena::test::must;

namespace {

const std::string header =
    "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,gpu_type\n";
const std::string table_header =
    "model,params,global_batch,gpu_type,num_nodes,gpus_per_node,iter_time_s\n";
const std::string small_table = table_header +
                                "bert,1B,8,a40,1,1,8\n"
                                "bert,1B,8,a40,1,2,5\n"
                                "bert,1B,8,a40,2,1,4\n"
                                "bert,1B,8,a40,2,2,2.5\n"
                                "bert,1B,8,v100,1,4,3\n"
                                "bert,2B,8,v100,1,4,6\n";

Cluster cluster_of(const std::string& nodes) {
    return must(parse_cluster("nodes:\n" + nodes, "c.yaml"));
}

Workload workload_of(const std::string& nodes, const std::string& jobs,
                     const std::string& table = small_table, WorkloadOptions options = {}) {
    const auto trace = must(parse_trace(header + jobs, "t.csv"));
    const auto throughputs = must(parse_throughputs(table, "p.csv"));
    options.trace_name = "t.csv";
    return must(bind_workload(cluster_of(nodes), trace, throughputs, options));
}

Metrics run(const Workload& workload, PolicyFunction policy, SimulationOptions options = {}) {
    return must(simulate(workload, "test", policy, options));
}

void assert_near(double got, double wanted, double relative = 1e-9) {
    ck_assert_msg(std::abs(got - wanted) <= relative * std::abs(wanted), "%.9g is not %.9g", got,
                  wanted);
}

const std::string two_a40 = "  - {gpu_type: a40, count: 2, gpus_per_node: 2}\n";

}  // namespace

TEST(a_job_pays_its_restart_and_then_runs_exactly) {
    // 51 / 5 = 10 iterations; 2 GPUs take the faster layout (4 s): 30 + 20 s restart + 40 s work.
    const Metrics m = run(workload_of(two_a40, "x,1000,51,bert__1B,,8,2,a40\n"), decide_fcfs);
    ck_assert(m.jobs == 1 && m.finished == 1 && m.restarts == 1);
    assert_near(m.jct_s.mean, 90);
    assert_near(m.makespan_s, 90);
    assert_near(m.throughput_mean, 80.0 / 90);
    assert_near(m.throughput_peak, 2);
    assert_near(m.gpu_utilization, 0.5);
    assert_near(m.normalized_throughput_mean, 40.0 / 90);
    ck_assert(m.queuing_s.max == 0);
}

/// Four GPUs lose a fifth beside one node's best (10 GPU-seconds for 8): that much is three times
/// as long between two leaves. What policies know changes nothing of it.
TEST(a_job_pays_for_the_span_that_it_gets) {
    const auto jct_s = [](std::int64_t leaf_nodes, const std::string& levels, bool blind) {
        const std::string nodes = "  - {gpu_type: a40, count: 2, gpus_per_node: 2, leaf_nodes: " +
                                  std::to_string(leaf_nodes) + "}\noversubscription: " + levels +
                                  "\n";
        SimulationOptions options;
        options.ignore_network = blind;
        const Metrics m =
            run(workload_of(nodes, "x,0,51,bert__1B,,8,4,a40\n"), decide_fcfs, options);
        return m.jct_s.mean;
    };
    for (const bool blind : {false, true}) {
        assert_near(jct_s(1, "{leaf: 3}", blind), 70 + 25 * 1.4);
        assert_near(jct_s(1, "{leaf: 1, pod: 5}", blind), 70 + 25);
        assert_near(jct_s(2, "{leaf: 3, pod: 5}", blind), 70 + 25);
    }
    const auto refuse = [](const std::string& tail, const std::string& text) {
        assert_refused(
            parse_cluster("nodes: [{gpu_type: a, count: 2, gpus_per_node: 1" + tail, "c.yaml"),
            text);
    };
    refuse("}]\noversubscription: {leaf: 2}\n", "needs leaf_nodes or domain_nodes");
    refuse(", leaf_nodes: 1}]\noversubscription: {leaf: 0.5}\n", "leaf");
    refuse(", leaf_nodes: 1}]\noversubscription: {spine: 2}\n", "spine");
    refuse(", leaf_nodes: 1}]\noversubscription: 2\n", "a map of leaf and pod");
}

namespace {

/// Four GPUs on two nodes: 2.5 s where both are in one rack, and 4 s with a plan that needs none.
Throughputs with_racks() {
    Throughputs table = must(parse_throughputs(table_header + "bert,1B,8,a40,2,2,4\n", "p.csv"));
    std::vector<Row>& rows = table.rows.at({"bert__1B", 8});
    rows.push_back(rows.front());
    rows.back().iteration_s = 2.5;
    rows.back().segment = 2;
    return table;
}

Workload in_racks(const std::string& nodes, WorkloadOptions options = {}) {
    const auto trace = must(parse_trace(header + "x,0,51,bert__1B,,8,4,a40\n", "t.csv"));
    return must(bind_workload(cluster_of(nodes), trace, with_racks(), options));
}

const std::string one_rack = "  - {gpu_type: a40, count: 2, gpus_per_node: 2, domain_nodes: 2}\n";
/// The nodes are the first of a rack each.
const std::string two_racks =
    "  - {gpu_type: a40, count: 1, gpus_per_node: 2, domain_nodes: 2}\n"
    "  - {gpu_type: a40, count: 1, gpus_per_node: 2, domain_nodes: 2}\n";

}  // namespace

TEST(racks_are_blocks_of_so_many_nodes_of_a_group) {
    const Snapshot s =
        lay_out(cluster_of("  - {gpu_type: a40, count: 5, gpus_per_node: 2, domain_nodes: 2}\n"
                           "  - {gpu_type: v100, count: 1, gpus_per_node: 4, domain_nodes: 3}\n"));
    ck_assert(s.topology == NetworkKind::block && s.switches.size() == 4);
    std::string racks;
    for (const NodeState& node : s.nodes) {
        ck_assert_uint_eq(path_of(s.switches, node.leaf).size(), 1);
        racks += path_of(s.switches, node.leaf)[0] + " ";
    }
    assert_text(racks, "rack1 rack1 rack2 rack2 rack3 rack4 ");
    const auto refuse = [](const std::string& first, const std::string& second, const char* why) {
        const std::string node = "  - {gpu_type: a, count: 2, gpus_per_node: 1";
        assert_refused(
            parse_cluster("nodes:\n" + node + first + "}\n" + node + second + "}\n", "c"), why);
    };
    refuse("", ", domain_nodes: 2", "one of the two in each entry of nodes");
    refuse(", domain_nodes: 2", ", leaf_nodes: 2", "one of the two in each entry of nodes");
    refuse(", domain_nodes: 2, leaf_nodes: 2", "", "each rack is a leaf");
    refuse(", domain_nodes: 2, pod_leaves: 2", "", "each rack is a leaf");
    refuse(", domain_nodes: 0", "", "domain_nodes");
}

/// A start takes 70 s, and there are ten iterations to do.
TEST(a_job_has_the_plan_of_a_rack_where_one_is_whole_and_policies_know_of_it) {
    for (const char* name : {"arena", "fifo", "fcfs"}) {
        const auto run_on = [&](const std::string& nodes, bool blind) {
            SimulationOptions options;
            options.ignore_network = blind;
            return run(in_racks(nodes), find_policy(name)->decide, options);
        };
        const Metrics whole = run_on(one_rack, false);
        assert_near(whole.jct_s.mean, 70 + 25);
        ck_assert(whole.network && whole.network->racks && whole.network->need_domain == 1);
        for (const Metrics& m :
             {run_on(one_rack, true), run_on(two_racks, false), run_on(two_racks, true)}) {
            assert_near(m.jct_s.mean, 70 + 40);
            ck_assert_int_eq(m.network->need_domain, 0);
        }
    }
    const Workload racks = in_racks(one_rack);
    const SharedOffers& offers = racks.profiles[0].offers;
    ck_assert(offers.size() == 2 && offers[0].segment == 2);
    ck_assert_msg(offers[racks.jobs[0].asked].segment == 1, "a user asks for GPUs, not for a rack");
    WorkloadOptions by_pools;
    by_pools.placement = PlacementRule::pools;
    const Workload pools = in_racks(one_rack, by_pools);
    ck_assert(pools.profiles[0].offers.size() == 1 && pools.topology == NetworkKind::flat);
}

TEST(a_policy_that_takes_a_rack_apart_is_told) {
    const PolicyFunction knows_no_racks = [](const Snapshot& s, const Offers& offers,
                                             const PolicyOptions& options) {
        Snapshot one_block = s;
        for (NodeState& node : one_block.nodes) node.leaf = 0;
        return decide_fcfs(one_block, offers, options);
    };
    assert_refused(simulate(in_racks(two_racks), "test", knows_no_racks, {}),
                   "splits nodes that its plan needs in one domain");
}

/// The first job has the first node for 90 s. The second comes when both nodes sleep, the second
/// since 100 s, the first since 190 s, and wakes up both for 60 + 70 + 10 x 2.5 s.
TEST(a_job_waits_for_nodes_that_boot_and_what_they_were_awake_is_counted) {
    const std::string nodes =
        "  - {gpu_type: a40, count: 2, gpus_per_node: 2, boot_s: 60, suspend_s: 100}\n";
    const Metrics m = run(
        workload_of(nodes, "x,0,51,bert__1B,,8,2,a40\ny,1000,51,bert__1B,,8,4,a40\n"), decide_fcfs);
    assert_near(m.outcomes[1].jct_s, 60 + 70 + 25);
    ck_assert(m.power && m.power->boots == 2);
    assert_near(m.power->awake_node_s, 100 + 190 + 2 * 155);
    assert_near(m.power->node_s, 2 * 1155);
}

/// The second group's node is the only one that is awake when y comes: x has kept it so. z finds
/// room there, too.
TEST(a_job_goes_to_a_node_that_is_awake) {
    const std::string nodes =
        "  - {gpu_type: a40, count: 2, gpus_per_node: 2, boot_s: 60, suspend_s: 100}\n"
        "  - {gpu_type: a40, count: 1, gpus_per_node: 2, boot_s: 60, suspend_s: 100000}\n";
    const std::string jobs = "y,150,51,bert__1B,,8,1,a40\nz,160,51,bert__1B,,8,1,a40\n";
    const std::string first = "x,0,5,bert__1B,,8,1,a40\n";  // time 0 is the first submission
    const Workload workload =
        workload_of(nodes, first + jobs, table_header + "bert,1B,8,a40,1,1,8\n");
    for (const char* name : {"fcfs", "backfill", "arena"}) {
        const Policy& policy = *find_policy(name);
        SimulationOptions options;
        options.only_events = policy.only_events;
        const Metrics m = must(simulate(workload, name, policy.decide, options));
        ck_assert_msg(m.power->boots == 0, "%s: %ld boots", name,
                      static_cast<long>(m.power->boots));
    }
}

TEST(a_node_that_boots_is_up_at_the_same_time_for_all_its_jobs) {
    Power power(std::vector<PowerRule>{{.boot_s = 60, .suspend_s = 100}});
    ck_assert(power.boot_s(0, 99) == 0 && power.boot_s(0, 100) == 60);
    ck_assert(power.take(0, 200) == 60);
    ck_assert(power.take(0, 220) == 40 && power.take(0, 300) == 0);
    power.note_idle(0, 230);  // before it is up
    ck_assert(power.boot_s(0, 359) == 0 && power.boot_s(0, 360) == 60);
    const PowerMetrics m = power.until(1000);
    ck_assert(m.boots == 1 && m.awake_node_s == 100 + 160 && m.node_s == 1000);
    ck_assert(Power(std::vector<PowerRule>(1)).boot_s(0, 1e9) == 0);
}

TEST(both_times_of_power_are_given_and_not_for_inference) {
    const auto refuse = [](const std::string& keys, const std::string& text) {
        assert_refused(
            parse_cluster("nodes: [{gpu_type: a, count: 2, gpus_per_node: 1, " + keys + "}]\n",
                          "c.yaml"),
            text);
    };
    refuse("boot_s: 60", "give both");
    refuse("suspend_s: 60", "give both");
    refuse("boot_s: 0, suspend_s: 60", "boot_s");
    refuse("boot_s: 60, suspend_s: 60, inference: true", "do not sleep");
}

TEST(rounds_of_any_length_follow_each_other) {
    SimulationOptions options;
    for (const double round_s : {1.1, 33.3, 59.9, 100.1}) {  // floor(k * r / r) is k - 1 for some k
        options.round_s = round_s;
        const Metrics m =
            run(workload_of(two_a40, "x,0,5100,bert__1B,,8,2,a40\n"), decide_fcfs, options);
        assert_near(m.jct_s.mean, 50 + 4 * 1020);
    }
}

TEST(launch_cost_grows_with_gpus_up_to_a_cap) {
    const RestartCost cost;
    assert_near(cost.seconds(1), 40);
    assert_near(cost.seconds(4), 70);
    assert_near(cost.seconds(64), 70);
}

TEST(fcfs_blocks_its_type_and_backfill_fills_behind) {
    // a holds 3 of 4 GPUs for 40+800 s; b wants 4 and waits; c wants 1 for 40+80 s and may pass.
    const std::string jobs =
        "a0,0,500,bert__1B,,8,2,a40\na,0,500,bert__1B,,8,1,a40\nb,1,500,bert__1B,,8,4,a40\n"
        "c,2,50,bert__1B,,8,1,a40\nd,3,5,bert__1B,,8,4,v100\n";
    const std::string nodes = two_a40 + "  - {gpu_type: v100, count: 1, gpus_per_node: 4}\n";
    const Workload w = workload_of(nodes, jobs);
    const Metrics strict = run(w, decide_fcfs), easy = run(w, decide_backfill);
    assert_near(strict.outcomes[1].jct_s, 840);
    assert_near(strict.outcomes[2].jct_s, 840 - 1 + 70 + 250);  // b starts when a ends
    assert_near(strict.outcomes[3].jct_s, 1160 - 2 + 40 + 80);  // c waits for b
    assert_near(easy.outcomes[3].jct_s, 40 + 80);
    assert_near(easy.outcomes[2].jct_s, strict.outcomes[2].jct_s);
    assert_near(strict.outcomes[4].jct_s, 70 + 3);  // another type is not blocked
}

TEST(unfinished_jobs_count_until_the_end_of_the_simulation) {
    SimulationOptions options;
    options.max_time_s = 60;
    const std::string jobs =
        "x,0,5000,bert__1B,,8,2,a40\ny,10,5,bert__1B,,8,1,a40\n"
        "late,60,5,bert__1B,,8,1,a40\n";
    const Metrics m = run(workload_of(two_a40, jobs), decide_fcfs, options);
    ck_assert(m.jobs == 2 && m.finished == 1);
    assert_near(m.outcomes[0].jct_s, 60);
    assert_near(m.outcomes[1].jct_s, 40 + 8);
    assert_near(m.makespan_s, 60);
}

TEST(requests_without_a_row_take_the_nearest_larger_count_then_another_type) {
    const std::string nodes = two_a40 + "  - {gpu_type: v100, count: 1, gpus_per_node: 4}\n";
    const Workload w = workload_of(nodes,
                                   "three,0,5,bert__1B,,8,3,a40\nnine,0,5,bert__1B,,8,9,a40\n"
                                   "other,0,5,bert__2B,,8,1,a40\nnone,0,5,bert__1B,,16,1,a40\n");
    ck_assert(w.jobs.size() == 3 && w.dropped == 1);
    const auto asked = [&](std::size_t i) {
        return short_form(w.profiles[w.jobs[i].profile].offers[w.jobs[i].asked].grid);
    };
    assert_text(asked(0), "2x2xa40");
    assert_text(asked(1), "2x2xa40");
    assert_text(asked(2), "4xv100");
}

TEST(only_measured_rows_are_offers) {
    const auto view = must(parse_throughputs(
        "model,params,global_batch,gpu_type,num_nodes,gpus_per_node,num_gpus,feasible,"
        "throughput_samples_per_s,derivation\n"
        "bert,1B,8,a40,1,1,1,1,4,direct\nbert,1B,8,a40,1,2,2,1,9,larger_model_x1.8^1\n"
        "bert,1B,8,a40,2,2,4,0,,none\n",
        "v.csv"));
    ck_assert(view.rows.at({"bert__1B", 8}).size() == 1);
    assert_near(view.rows.at({"bert__1B", 8})[0].iteration_s, 2);
    const auto slow = parse_throughputs(table_header + "bert,1B,8,a40,1,1,301\n", "v.csv");
    ck_assert(slow.ok() && slow->rows.at({"bert__1B", 8}).empty());
}

TEST(malformed_files_are_refused_with_their_line) {
    const std::string good = "x,0,5,bert__1B,,8,2,a40\n";
    const auto refuse = [&](const std::string& rows, const char* why) {
        assert_refused(parse_trace(header + rows, "t.csv"), why);
    };
    refuse(good + "x,1,5,bert__1B,,8,2,a40\n", "t.csv:3: job_id x is given twice");
    refuse(good + "y,9,5,bert__1B,,8,2,a40\nz,4,5,bert__1B,,8,2,a40\n",
           "t.csv:4: submission_time 4");
    refuse("x,-1,5,bert__1B,,8,2,a40\n", "t.csv:2: submission_time: \"-1\"");
    refuse("x,nan,5,bert__1B,,8,2,a40\n", "t.csv:2: submission_time: \"nan\"");
    refuse("x,0,0,bert__1B,,8,2,a40\n", "t.csv:2: num_iteration: \"0\"");
    refuse("x,0,5,bert__1B,,8,0,a40\n", "t.csv:2: num_gpu: \"0\"");
    refuse("x,0,5,bert__1B,,8,a40\n", "t.csv:2: 7 cells");
    refuse("", "t.csv:1: the trace has no jobs");
    assert_refused(parse_trace("job_id\n", "t.csv"), "t.csv:1: the header line has no column");
    assert_refused(parse_throughputs(table_header + "bert,1B,8,a40,1,1,0\n", "p.csv"), "p.csv:2");
    assert_refused(parse_throughputs(table_header + "bert,1B,8,a40,1,1,\n", "p.csv"), "p.csv:2");
    assert_refused(parse_throughputs(table_header + "bert,1B,8,a40,1,1,nan\n", "p.csv"), "p.csv:2");
    assert_refused(
        parse_throughputs(table_header + "bert,1B,8,a40,1,1,2\nbert,1B,8,a40,1,1,2\n", "p.csv"),
        "p.csv:3: this model, batch and layout");
    assert_refused(parse_cluster("nodes: []\n", "c.yaml"), "c.yaml:1");
    assert_refused(
        parse_cluster("nodes:\n  - {gpu_type: a, count: 0, gpus_per_node: 1}\n", "c.yaml"),
        "c.yaml:2");
    assert_refused(parse_cluster("nodes:\n  - {gpu_type: a, count: 1}\n", "c.yaml"),
                   "gpus_per_node is missing");
}

TEST(unknown_models_and_types_are_refused_where_they_stand) {
    const auto table = parse_throughputs(small_table, "p.csv");
    WorkloadOptions options;
    options.trace_name = "t.csv";
    const auto bind = [&](const std::string& row) {
        const auto trace = must(parse_trace(header + row, "t.csv"));
        return bind_workload(cluster_of(two_a40), trace, *table, options);
    };
    assert_refused(bind("x,0,5,bert__9B,,8,2,a40\n"), "t.csv:2: model_name: the throughput table");
    assert_refused(bind("x,0,5,bert__1B,,8,2,h900\n"), "t.csv:2: gpu_type: \"h900\"");
    assert_refused(bind("x,0,5,bert__2B,,8,2,a40\n"), "no job of the trace has a usable row");
}

TEST(errors_are_hidden_from_the_policy_and_fixed_by_the_seed) {
    const Workload w = workload_of(two_a40, "x,0,5000,bert__1B,,8,2,a40\n");
    SimulationOptions options;
    options.errors = {0.3, 0.5, 7};
    options.watch = [&](const Snapshot& s, const Offers& o, const PolicyOptions&, const Decision&) {
        const JobState& job = s.jobs[0];
        ck_assert(job.remaining_iterations == std::max(1.0, 1000 - job.done_iterations));
        ck_assert(job.overrun == (job.done_iterations >= 1000));
        ck_assert(o.at(1)[0].estimate.iteration_s == 2.5);
    };
    const Metrics a = run(w, decide_fcfs, options), b = run(w, decide_fcfs, options);
    ck_assert(a.jct_s.mean == b.jct_s.mean);
    ck_assert(std::abs(a.jct_s.mean - 4050) > 1);
    const double work = 1000 * Workload::work_factor(options.errors, 0);
    const double iteration_s = 4 * Workload::time_factor(options.errors, 0, 1);
    assert_near(a.jct_s.mean, 50 + work * iteration_s);
    options.errors.seed = 8;
    ck_assert(run(w, decide_fcfs, options).jct_s.mean != a.jct_s.mean);
}

TEST(what_users_say_of_their_work_changes_what_policies_see_and_not_the_work) {
    const Workload w = workload_of(two_a40, "x,0,5000,bert__1B,,8,2,a40\n");
    SimulationOptions options;
    options.errors.seed = 3;
    const Metrics exact = run(w, decide_fcfs, options);
    options.errors.said_sigma = 1;
    const double said = 1000 * Workload::said_factor(options.errors, 0);
    ck_assert(std::abs(said - 1000) > 1);
    const double limit_s = w.jobs[0].time_limit_s;
    options.watch = [&](const Snapshot& s, const Offers&, const PolicyOptions&, const Decision&) {
        const JobState& job = s.jobs[0];
        ck_assert(job.remaining_iterations == std::max(1.0, said - job.done_iterations));
        ck_assert(job.overrun == (job.done_iterations >= said));
        const double held_s = job.phase == JobPhase::running ? s.time_s - job.start_s : 0;
        assert_near(job.time_limit_s, std::max(1.0, limit_s * said / 1000 - held_s));
    };
    ck_assert(run(w, decide_fcfs, options).jct_s.mean == exact.jct_s.mean);
}

namespace {

/// Runs a job of 1,000 iterations of 4 s with the limit (0: 70 s more than it takes) and looks at
/// each decision: what policies see is the work, less what is done, and the limit, less its run.
void assert_seen(SimulationOptions options, double stated_s, double work, double limit_s) {
    Workload w = workload_of(two_a40, "x,0,5000,bert__1B,,8,2,a40\n");
    if (stated_s > 0) w.jobs[0].time_limit_s = stated_s, w.jobs[0].limit_stated = true;
    options.watch = [&](const Snapshot& s, const Offers&, const PolicyOptions&, const Decision&) {
        const JobState& job = s.jobs[0];
        assert_near(job.remaining_iterations, std::max(1.0, work - job.done_iterations));
        ck_assert(job.overrun == (job.done_iterations >= work));
        const double held_s = job.phase == JobPhase::running ? s.time_s - job.start_s : 0;
        assert_near(job.time_limit_s, std::max(1.0, limit_s - held_s));
    };
    ck_assert(run(w, decide_fcfs, options).jct_s.mean == 50 + 4000);
}

}  // namespace

TEST(a_lie_is_believed_by_value_and_bounded_by_the_limit_in_slurms_order) {
    SimulationOptions options;
    options.errors.seed = 3;
    options.policy.order = QueueOrder::value;
    assert_seen(options, 0, 1000, 4070);
    options.errors.liar_share = 1;
    assert_seen(options, 0, 10, 4070);
    assert_seen(options, 20000, 10, 20000);
    // What it needs to end, of a run as requested; 50 s are its start.
    options.policy.order = QueueOrder::priority;
    const double factor = Workload::limit_factor(3, 0);
    assert_seen(options, 0, 1000 * factor, 50 + 4000 * factor);
    assert_seen(options, 20050, 5000, 20050);
}

TEST(in_slurms_order_honest_limits_are_shortened_to_what_is_believed) {
    SimulationOptions options;
    options.policy.order = QueueOrder::priority;
    assert_seen(options, 0, 1000, 4070);
    assert_seen(options, 5000, 1000, 5000);
    assert_seen(options, 20000, 1000, 50 + 2 * 4000);
}

TEST(who_lies_follows_from_the_seed_alone_and_what_it_gains_is_told) {
    Errors few{.seed = 1, .liar_share = 0.2}, many{.seed = 1, .liar_share = 0.5};
    int liars = 0;
    for (std::uint32_t job = 0; job < 10000; ++job) {
        ck_assert(Workload::is_liar(many, job) || !Workload::is_liar(few, job));
        liars += Workload::is_liar(few, job);
    }
    ck_assert(std::abs(liars - 2000) < 160);
    Metrics lied, truthful;
    double of_liars = 0;
    for (std::uint32_t job = 0; job < 1000; ++job) {
        const bool liar = Workload::is_liar(few, job);
        of_liars += liar;
        lied.outcomes.push_back({.jct_s = liar ? 50.0 : 300.0});
        truthful.outcomes.push_back({.jct_s = liar ? 100.0 : 200.0});
    }
    lied.jobs = 1000;
    const LiarMetrics m = liars_of(few, lied, truthful);
    ck_assert(static_cast<double>(m.jobs) == of_liars && m.jct_s == 50 && m.truthful_jct_s == 100 &&
              m.honest_jct_s == 300 && m.honest_truthful_jct_s == 200);
    few.liar_share = 0;
    ck_assert(liars_of(few, lied, truthful).jobs == 0);
}

namespace {

/// 40 jobs within the hour on 8 a40, most of which could have more GPUs than they asked for.
Workload crowd() {
    std::string jobs;
    for (int i = 0; i < 40; ++i) {
        jobs += fmt::format("j{},{},{},bert__1B,,8,{},a40\n", i, 90 * i,
                            500 + 97 * (i % 7) * (i % 7), 1 + i % 2);
    }
    return workload_of("  - {gpu_type: a40, count: 4, gpus_per_node: 2}\n", jobs);
}

}  // namespace

TEST(jobs_that_are_not_elastic_keep_what_they_start_with_under_every_policy) {
    const Workload w = crowd();
    SimulationOptions options;
    options.errors.seed = 5;
    options.keep_stays = true;
    for (const Policy& policy : policies()) {
        options.only_events = policy.only_events;
        options.elastic_share = 0;
        const Metrics none = run(w, policy.decide, options);
        ck_assert_msg(none.elastic == 0 && none.finished == 40 && none.restarts == 40,
                      "%s: %ld starts", std::string(policy.name).c_str(),
                      static_cast<long>(none.restarts));
        options.elastic_share = 0.5;
        const Metrics half = run(w, policy.decide, options);
        ck_assert(half.elastic > 10 && half.elastic < 30 && half.finished == 40);
        for (std::uint32_t job = 0; job < 40; ++job) {
            const auto stays = std::count_if(half.stays.begin(), half.stays.end(),
                                             [&](const Stay& stay) { return stay.job == job; });
            ck_assert(stays == 1 || Workload::is_elastic(0.5, 5, job));
        }
    }
}

TEST(which_jobs_are_elastic_follows_from_the_seed_alone) {
    int small = 0, large = 0, other = 0;
    for (std::uint32_t job = 0; job < 10000; ++job) {
        const bool is_small = Workload::is_elastic(0.2, 1, job),
                   is_large = Workload::is_elastic(0.5, 1, job);
        ck_assert(is_large || !is_small);
        ck_assert(Workload::is_elastic(1, 1, job) && !Workload::is_elastic(0, 1, job));
        small += is_small;
        large += is_large;
        other += is_large != Workload::is_elastic(0.5, 2, job);
    }
    ck_assert(std::abs(small - 2000) < 160 && std::abs(large - 5000) < 200 &&
              std::abs(other - 5000) < 200);
}

TEST(a_policy_that_moves_a_job_that_is_not_elastic_is_an_error) {
    const PolicyFunction mover = [](const Snapshot& s, const Offers& o, const PolicyOptions&) {
        const ActionKind kind =
            s.jobs[0].phase == JobPhase::running ? ActionKind::preempt : ActionKind::start;
        Decision d;
        const Offer& offer = o.at(1)[0];
        std::vector<NodeIndex> nodes;
        for (NodeIndex n = 0; n < static_cast<NodeIndex>(offer.grid.nodes); ++n) nodes.push_back(n);
        d.actions.push_back({kind, 1, offer, nodes, "", ""});
        return d;
    };
    const Workload w = workload_of(two_a40, "x,0,50000,bert__1B,,8,2,a40\n");
    SimulationOptions options;
    options.max_time_s = 1000;
    ck_assert(simulate(w, "mover", mover, options).ok());
    options.elastic_share = 0;
    const Result<Metrics> broken = simulate(w, "mover", mover, options);
    ck_assert(!broken.ok());
    ck_assert(broken.error().message().find("changes a job that is not elastic") !=
              std::string::npos);
}

TEST(work_that_is_unknown_shows_as_a_time_limit_only) {
    const Workload w = workload_of(two_a40, "x,0,5000,bert__1B,,8,2,a40\n");
    SimulationOptions options;
    options.errors.seed = 3;
    const Metrics known = run(w, decide_fcfs, options);
    options.work_unknown = true;
    const double factor = Workload::limit_factor(3, 0), limit_s = w.jobs[0].time_limit_s * factor;
    ck_assert(factor > 1 && factor < 5);
    options.watch = [&](const Snapshot& s, const Offers&, const PolicyOptions&, const Decision&) {
        const JobState& job = s.jobs[0];
        ck_assert(job.remaining_iterations == 0 && !job.overrun);
        assert_near(job.time_limit_s, limit_s - 4 * job.done_iterations);
    };
    ck_assert(run(w, decide_fcfs, options).jct_s.mean == known.jct_s.mean);
}

TEST(a_policy_that_breaks_its_contract_is_an_error) {
    const PolicyFunction greedy = [](const Snapshot& s, const Offers& o, const PolicyOptions&) {
        Decision d;
        for (const JobState& job : s.jobs) {
            if (job.phase == JobPhase::running) continue;
            d.actions.push_back({ActionKind::start, job.id, o.at(job.id)[0], {0, 1}, "", ""});
        }
        return d;
    };
    const Workload w = workload_of(two_a40, "x,0,50,bert__1B,,8,2,a40\ny,0,50,bert__1B,,8,2,a40\n");
    assert_refused(simulate(w, "greedy", greedy, {}), "takes more than is free on n1");
    const PolicyFunction lazy = [](const Snapshot&, const Offers&, const PolicyOptions&) {
        return Decision{};
    };
    assert_refused(simulate(w, "lazy", lazy, {}), "leaves 2 jobs waiting on an idle cluster");
}

TEST(a_resize_keeps_the_work_done_and_pays_again) {
    // 100 iterations on 1 GPU (8 s); at the round at 300 s: (300 - 40) / 8 = 32.5 done; then 2.5 s
    // each.
    const PolicyFunction grow = [](const Snapshot& s, const Offers& o, const PolicyOptions&) {
        Decision d;
        const JobState& job = s.jobs[0];
        for (const Offer& offer : o.at(job.id)) {
            const bool wanted = offer.grid.gpus() == (s.time_s < 300 ? 1 : 4);
            if (!wanted) continue;
            if (job.phase == JobPhase::pending) {
                d.actions.push_back({ActionKind::start, job.id, offer, {0}, "", ""});
            } else if (s.time_s == 300) {
                d.actions.push_back({ActionKind::resize, job.id, offer, {0, 1}, "", ""});
            }
        }
        return d;
    };
    SimulationOptions options;
    options.keep_stays = true;
    const Metrics m = run(workload_of(two_a40, "x,0,500,bert__1B,,8,1,a40\n"), grow, options);
    assert_near(m.jct_s.mean, 300 + 70 + 67.5 * 2.5);
    ck_assert(m.restarts == 2 && m.stays.size() == 2 && m.stays[0].to_s == 300);
}

TEST(generated_traces_have_the_load_and_shares_asked_for) {
    const auto table = parse_throughputs(small_table, "p.csv");
    const Cluster cluster = cluster_of(two_a40);
    GeneratorOptions options;
    options.jobs = 4000;
    options.load = 0.5;
    options.accounts = {{"a", 70}, {"b", 30}};
    options.priorities = 2;
    const auto jobs = generate_trace(cluster, *table, options);
    ck_assert(jobs.ok() && jobs->size() == 4000);
    const auto read = must(parse_trace(format_trace(*jobs), "g.csv"));
    const auto bound = must(bind_workload(cluster, read, *table, {}));
    double gpu_s = 0, of_a = 0;
    for (const SimJob& job : bound.jobs) {
        const Offer& asked = bound.profiles[job.profile].offers[job.asked];
        const double run_s = job.iterations * asked.estimate.iteration_s + 70;
        gpu_s += run_s * static_cast<double>(asked.grid.gpus());
        ck_assert(job.time_limit_s >= run_s - 1 && job.time_limit_s <= 5 * run_s + 1);
        of_a += bound.accounts[job.account] == "a" ? 1 : 0;
    }
    assert_near(gpu_s / (4 * bound.jobs.back().submit_s), 0.5, 0.05);
    assert_near(of_a / 4000, 0.7, 0.05);
    const auto again = generate_trace(cluster, *table, options);
    ck_assert(format_trace(*again) == format_trace(*jobs));
}

/// All jobs of the mix ask for a40, on which most work takes longest; two of three have no choice.
TEST(a_mix_loads_every_gpu_type_alike) {
    const auto table = parse_throughputs(small_table, "p.csv");
    const Cluster cluster =
        cluster_of(two_a40 + "  - {gpu_type: v100, count: 4, gpus_per_node: 4}\n");
    const auto mix =
        parse_trace(header +
                        "m1,0,40000,bert__1B,0,8,1,a40\nm2,0,20000,bert__1B,0,8,2,a40\n"
                        "m3,0,10000,bert__2B,0,8,4,a40\n",
                    "m.csv");
    ck_assert(table.ok() && mix.ok());
    GeneratorOptions options;
    options.jobs = 4000;
    options.load = 0.8;
    options.mix = *mix;
    const auto jobs = generate_trace(cluster, *table, options);
    ck_assert(jobs.ok() && jobs->size() == 4000);
    const auto bound = must(bind_workload(cluster, *jobs, *table, {}));
    std::map<std::string, double> gpu_s;
    for (const SimJob& job : bound.jobs) {
        const Offer& asked = bound.profiles[job.profile].offers[job.asked];
        const double run_s = job.iterations * asked.estimate.iteration_s;
        gpu_s[asked.grid.gpu_type] += run_s * static_cast<double>(asked.grid.gpus());
    }
    assert_near(gpu_s["a40"] / 4 / bound.jobs.back().submit_s, 0.8, 0.08);
    assert_near(gpu_s["v100"] / 16 / bound.jobs.back().submit_s, 0.8, 0.08);
}

TEST_NEEDING(the_published_yardstick_is_reproduced,
             arena::test::lacks_reference(arena::test::philly_trace)) {
    const auto philly = arena::test::read_philly();
    WorkloadOptions pools;
    pools.placement = PlacementRule::pools;
    const auto w =
        must(bind_workload(cluster_of("  - {gpu_type: a100, count: 10, gpus_per_node: 4}\n"
                                      "  - {gpu_type: v100, count: 5, gpus_per_node: 8}\n"
                                      "  - {gpu_type: a40, count: 20, gpus_per_node: 2}\n"
                                      "  - {gpu_type: a10, count: 20, gpus_per_node: 2}\n"),
                           philly.jobs, philly.table, pools));
    SimulationOptions options;
    options.max_time_s = 600000;
    options.placement = PlacementRule::pools;
    const Metrics strict = run(w, decide_fcfs, options), easy = run(w, decide_backfill, options);
    ck_assert(strict.jobs == 985);
    assert_near(strict.jct_s.mean, 276225, 1e-5);
    assert_near(easy.jct_s.mean, 260056, 1e-5);
}

TEST(our_own_trace_keeps_its_numbers) {
    const Workload w = arena::test::own_workload();
    const Metrics strict = run(w, decide_fcfs), easy = run(w, decide_backfill);
    ck_assert(strict.jobs == 150 && strict.finished == 150 && easy.finished == 150);
    assert_near(strict.jct_s.mean, 173994, 1e-5);
    assert_near(easy.jct_s.mean, 41907.5, 1e-5);
}

// Whole simulations, maybe on a busy machine.
SUITE({.timeout_s = 300});
