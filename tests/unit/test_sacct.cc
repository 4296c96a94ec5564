// SPDX-License-Identifier: GPL-2.0-or-later
// A site's past jobs: what sacct and scontrol print in each of their forms, what becomes a job of a
// trace and why the rest does not, and that a replay of recorded runs takes as long as they took.
#include <fmt/format.h>

#include "baselines/arena_beside_slurm.h"
#include "baselines/slurm_backfill.h"
#include "sim/history/import.h"
#include "sim/history/report.h"
#include "sim/simulator.h"
#include "suite.h"

using namespace arena;
using namespace arena::sim;
using arena::test::assert_refused;
using arena::test::assert_text;
using arena::test::must;

namespace {

const std::string header =
    "JobIDRaw|User|Account|Partition|JobName|State|Submit|Eligible|Start|End|TimelimitRaw|Priority|"
    "NNodes|ReqTRES|AllocTRES|NodeList\n";
const std::string node_lines =
    "NodeName=n1 Arch=x86_64 Gres=gpu:a40:4(S:0-1),craynetwork:1 State=IDLE\n"
    "NodeName=n2 Gres=gpu:a40:4(S:0,2) State=IDLE\n"
    "NodeName=n3 Gres=gpu:8 CfgTRES=cpu=4,gres/gpu=8\n"
    "NodeName=n4 Gres=gpu:mi300,gpu:mi300:2 \n"
    "NodeName=n5 Gres=(null)\n";

std::vector<PastJob> read(const std::string& rows) {
    return must(parse_sacct(header + rows, "sacct.txt"));
}
std::map<std::string, PastNode> nodes() { return must(parse_nodes(node_lines, "nodes.txt")); }
Import import(const std::string& rows, const ImportOptions& options = {}) {
    return must(import_history(read(rows), nodes(), options, "sacct.txt"));
}

/// A row of a job on `gpus` of node n1 that was submitted at 100, with what a case is about.
struct Row {
    int id = 1;
    std::string name = "train", state = "COMPLETED";
    std::string eligible = "100", start = "110", end = "170", limit = "10";
    std::string tres = "cpu=4,gres/gpu:a40=2,gres/gpu=2,node=1";
    std::string hosts = "n1";
    [[nodiscard]] std::string text() const {
        return fmt::format("{}|ann|lab|main|{}|{}|100|{}|{}|{}|{}|77|1|cpu=4|{}|{}\n", id, name,
                           state, eligible, start, end, limit, tres, hosts);
    }
};

TEST(row_is_read_by_the_names_of_its_fields) {
    const PastJob job = read(Row{}.text()).at(0);
    assert_text(job.id + job.user + job.account + job.partition + job.name, "1annlabmaintrain");
    assert_text(job.state, "COMPLETED");
    ck_assert(job.submit_s == 100 && job.eligible_s == 100 && job.start_s == 110 &&
              job.end_s == 170);
    ck_assert(job.limit_s == 600 && job.priority == 77 && job.nodes == 1);
    ck_assert(job.gpus == (std::map<std::string, std::int64_t>{{"a40", 2}}));
    assert_text(job.first_host, "n1");
}

TEST(local_times_long_limits_and_other_orders_of_fields_are_read) {
    const auto jobs = must(parse_sacct(
        "JobID|State|Timelimit|End|Start|Submit|AllocTRES|NodeList|\n"
        "7_3|CANCELLED by 1000|2-01:00:30|2026-11-30T00:00:10|2026-11-30T00:00:00|"
        "2026-11-29T23:59:00|gres/gpu=3|n[1-2,7]|\n"
        "7_3.batch|COMPLETED||2026-11-30T00:00:10|2026-11-30T00:00:00|2026-11-29T23:59:00|"
        "gres/gpu=3|n1|\n"
        "8|PENDING|UNLIMITED|Unknown|Unknown|2026-11-30T00:00:01||None assigned|\n",
        "s"));
    ck_assert_uint_eq(jobs.size(), 2);
    assert_text(jobs[0].state, "CANCELLED");
    ck_assert(jobs[0].start_s - jobs[0].submit_s == 60 && jobs[0].end_s - jobs[0].start_s == 10);
    ck_assert(jobs[0].limit_s == 2 * 86400 + 3630);
    ck_assert(jobs[0].gpus == (std::map<std::string, std::int64_t>{{"", 3}}));
    assert_text(jobs[0].first_host, "n1");
    ck_assert(jobs[1].start_s < 0 && jobs[1].limit_s == 0 && jobs[1].first_host.empty());
}

TEST(job_name_may_hold_the_separator) {
    Row row;
    row.name = "a|b||c";
    const PastJob job = read(row.text()).at(0);
    assert_text(job.name, "a|b||c");
    assert_text(job.first_host, "n1");
}

TEST(what_is_no_accounting_is_refused_by_its_place) {
    assert_refused(parse_sacct("hello\n", "s"), "s:1: the header line has no column \"JobID\"");
    assert_refused(parse_sacct("hello\n", "s"), "sacct -a -X -D -P");
    Row row;
    row.start = "yesterday";
    assert_refused(parse_sacct(header + row.text(), "s"), "s:2: Start: \"yesterday\" is neither");
    row = {};
    row.tres = "gres/gpu:a40=many";
    assert_refused(parse_sacct(header + row.text(), "s"),
                   "s:2: AllocTRES: \"gres/gpu:a40=many\" is no list");
    row = {};
    row.limit = "soon";
    assert_refused(parse_sacct(header + row.text(), "s"), "s:2: TimelimitRaw: \"soon\"");
    assert_refused(parse_sacct(header + "1|ann\n", "s"), "s:2: 2 cells");
    assert_refused(parse_nodes("hello\n", "n"), "scontrol -o show node");
    assert_refused(parse_nodes("NodeName=n1 Gres=(null)\n", "n"), "no node has GPUs");
}

TEST(nodes_become_groups_by_type_and_width) {
    const auto found = nodes();
    ck_assert_uint_eq(found.size(), 4);
    assert_text(found.at("n3").gpu_type, "gpu");
    ck_assert(found.at("n4").gpu_type == "mi300" && found.at("n4").gpus == 3);
    const Cluster cluster = must(parse_cluster(format_cluster(sim::cluster_of(found)), "c.yaml"));
    ck_assert_int_eq(cluster.gpus(), 4 + 4 + 8 + 3);
    ck_assert(cluster == sim::cluster_of(found));
}

TEST(each_row_is_a_job_or_left_out_for_a_reason) {
    std::string rows;
    auto add = [&, id = 0](auto change) mutable {
        Row row;
        row.id = ++id;
        change(row);
        rows += row.text();
    };
    add([](Row&) {});
    add([](Row& r) { r.tres = "cpu=4,node=1"; });
    add([](Row& r) { r.start = r.end = "Unknown", r.state = "PENDING"; });
    add([](Row& r) { r.end = r.start; });
    add([](Row& r) { r.tres = "gres/gpu=2", r.hosts = "n3"; });
    add([](Row& r) { r.tres = "gres/gpu=2", r.hosts = "gone"; });
    add([](Row& r) { r.tres = "gres/gpu:v100=2"; });
    add([](Row& r) { r.tres = "gres/gpu:a40=2,gres/gpu:mi300=1"; });
    add([](Row& r) { r.start = "120", r.end = "Unknown", r.state = "RUNNING"; });
    rows += Row{}.text();  // the first one's second life
    const Import out = import(rows);
    const ImportCounts& c = out.counts;
    ck_assert_int_eq(c.rows, 10);
    ck_assert_int_eq(c.jobs, 4);
    ck_assert_int_eq(c.requeued, 1);
    ck_assert_int_eq(c.still_running, 1);
    ck_assert(c.left_out ==
              (std::map<std::string, std::int64_t>{{"ended when they started", 1},
                                                   {"never started", 1},
                                                   {"of a GPU type that no node has", 1},
                                                   {"of several GPU types", 1},
                                                   {"on nodes that are no more", 1},
                                                   {"without GPUs", 1}}));
    ck_assert(c.states == (std::map<std::string, std::int64_t>{
                              {"COMPLETED", 8}, {"PENDING", 1}, {"RUNNING", 1}}));
    assert_text(out.jobs[1].gpu_type, "gpu");
    ck_assert(out.jobs[2].run_s == 50);  // to the last time of the file
    assert_text(out.jobs[3].id, "1#2");
    const auto again = must(parse_trace(format_trace(out.jobs), "t.csv"));
    ck_assert_uint_eq(again.size(), 4);
    ck_assert(again[2].run_s == 50 && again[2].start_s == 120 && again[2].nodes == 1);
}

TEST(waits_begin_when_the_job_could_start) {
    Row row;
    row.eligible = "105";
    ck_assert(import(row.text()).jobs[0].submit_s == 105);
    row.eligible = "Unknown";
    ck_assert(import(row.text()).jobs[0].submit_s == 100);
}

TEST(first_rule_that_fits_names_the_model) {
    const auto rules = must(
        parse_model_rules("models:\n  - {name: \"gpt*\", gpus: 4-8, model: gpt2-xl, batch: 64}\n"
                          "  - {user: ann, name: \"g*\", model: gpt2, batch: 8}\n",
                          "m.yaml"));
    Row row;
    row.name = "gpt-1";
    ImportOptions options{rules};
    options.hide_names = true;
    Import out = import(row.text() + Row{}.text(), options);
    assert_text(out.jobs[0].model, "gpt2");  // two GPUs are below the first rule's
    ck_assert_int_eq(out.jobs[0].batch, 8);
    assert_text(out.jobs[1].model, "");
    assert_text(out.jobs[0].account, "account1");
    ck_assert_int_eq(out.counts.mapped, 1);
    assert_refused(parse_model_rules("models:\n  - {user: ann}\n", "m"), "m:2:5: model and batch");
    assert_refused(parse_model_rules("models:\n  - {gpus: 8-4, model: gpt2, batch: 8}\n", "m"),
                   "neither N nor N-M");
}

/// Two nodes of four a40.
Workload replayed(const std::string& rows) {
    static const Throughputs none;
    const auto all = must(parse_nodes(node_lines, "nodes.txt"));
    const Cluster cluster = sim::cluster_of({{"n1", all.at("n1")}, {"n2", all.at("n2")}});
    return must(bind_workload(cluster, import(rows).jobs, none, {}));
}

TEST(replay_starts_jobs_when_they_started) {
    // Eight GPUs: the second waits for the first, the third fits beside it.
    std::string rows;
    for (const auto& [id, tres, nodes_of, start, end] :
         {std::tuple(1, 6, 2, 100, 160), std::tuple(2, 8, 2, 160, 200),
          std::tuple(3, 2, 2, 100, 150)})
        rows += fmt::format("{}|a|a|p|x|COMPLETED|100|100|{}|{}|2|1|{}||gres/gpu:a40={}|n[1-2]\n",
                            id, start, end, nodes_of, tres);
    const Workload workload = replayed(rows);
    SimulationOptions options;
    options.only_events = true;
    const Metrics run = must(simulate(workload, "backfill", &decide_slurm_backfill, options));
    const Metrics was = metrics_as_recorded(workload, true);
    const ReplayError error = replay_error(workload, run, 1);
    ck_assert_int_eq(error.jobs, 3);
    ck_assert(error.met == 1 && error.off_s.max == 0);
    ck_assert(run.jct_s.mean == was.jct_s.mean && was.queuing_s.max == 60);
    ck_assert(run.outcomes[1].jct_s == 100);
    ck_assert_uint_eq(was.stays.size(), 3);  // each has room when it started
    ck_assert(was.finish_time_fairness.max == run.finish_time_fairness.max);
    // Nobody named a model: Arena beside Slurm is Slurm.
    options.only_events = false;
    options.ordinary = true;
    options.policy.order = QueueOrder::priority;
    const Metrics beside = must(simulate(workload, "arena", &decide_arena_beside_slurm, options));
    for (std::size_t i = 0; i < 3; ++i)
        ck_assert(beside.outcomes[i].jct_s == run.outcomes[i].jct_s);
    ck_assert_int_eq(beside.restarts, 3);
}

TEST(nodes_are_kept_for_a_job_that_wants_whole_ones) {
    // Two nodes of four GPUs: a wide job waits for both, and small ones come all the time.
    std::string rows =
        "1|a|a|p|x|COMPLETED|90|90|90|190|2|1|1||gres/gpu:a40=3|n1\n"
        "2|a|a|p|x|COMPLETED|100|100|190|290|2|1|2||gres/gpu:a40=8|n[1-2]\n";
    for (int id = 3; id < 40; ++id)
        rows += fmt::format("{}|a|a|p|x|COMPLETED|{}|{}|{}|{}|9|1|1||gres/gpu:a40=1|n1\n", id,
                            98 + id, 98 + id, 98 + id, 298 + id);
    const Workload workload = replayed(rows);
    SimulationOptions options;
    options.only_events = true;
    const Metrics run = must(simulate(workload, "backfill", &decide_slurm_backfill, options));
    ck_assert(run.outcomes[1].queuing_s == 90);  // when the first one ends
    ck_assert(run.outcomes[39 - 1].queuing_s > 90);
}

TEST(replay_keeps_the_nodes_of_a_recorded_run) {
    // One GPU is free on each node: two of one node are not.
    std::string rows;
    for (const auto& [id, gpus, start, end] :
         {std::tuple(1, 3, 100, 300), std::tuple(2, 3, 100, 300), std::tuple(3, 2, 300, 400)})
        rows += fmt::format("{}|a|a|p|x|COMPLETED|100|100|{}|{}|9|1|1||gres/gpu:a40={}|n1\n", id,
                            start, end, gpus);
    const Workload workload = replayed(rows);
    SimulationOptions options;
    options.only_events = true;
    const Metrics run = must(simulate(workload, "backfill", &decide_slurm_backfill, options));
    ck_assert(run.outcomes[2].queuing_s == 200);
    ck_assert(replay_error(workload, run, 1).met == 1);
}

TEST(what_began_later_or_has_odd_names_is_read) {
    Row running, begins;
    running.end = "Unknown";
    begins.id = 2, begins.eligible = "999999", begins.start = begins.end = "Unknown";
    std::string rows = running.text() + begins.text();
    ck_assert(import(rows + Row{.id = 3}.text()).jobs[0].run_s == 60);  // to 170, not 999999
    rows = Row{}.text();
    rows.replace(rows.find("lab"), 3, "a,b");
    assert_text(import(rows).jobs[0].account, "account1");
    Row big;
    const auto jobs = import(big.text()).jobs;
    auto two = jobs;
    two[0].priority = 4294901758;
    assert_text(fmt::format("{:.0f}", must(parse_trace(format_trace(two), "t"))[0].priority),
                "4294901758");
    Row none;
    none.tres = "cpu=1";
    assert_refused(import_history(read(none.text()), nodes(), {}, "s"), "AccountingStorageTRES");
}

TEST(report_says_who_waits_longer) {
    const Workload workload = replayed(Row{}.text());
    Metrics run = metrics_as_recorded(workload, true);
    const Metrics was = run;
    run.outcomes[0].queuing_s += 50;
    run.outcomes[0].jct_s += 50;
    const ReplayError error = replay_error(workload, run, 10);
    ck_assert(error.later == 1 && error.earlier == 0 && error.met == 0 && error.off_s.max == 50);
    const Sides sides = sides_of(workload, run, was);
    ck_assert(sides.ordinary_later == 1 && sides.ordinary_wait_s == 60 && sides.model_jct_s == 0);
}

}  // namespace
