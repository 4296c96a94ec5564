// SPDX-License-Identifier: GPL-2.0-or-later
// `arena trace import|report`: a site's own month from Slurm's accounting, replayed under stock and
// under Arena, without a change to the site.
#include <fmt/format.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/count_text.h"
#include "base/json.h"
#include "base/text.h"
#include "baselines/arena_beside_slurm.h"
#include "baselines/slurm_backfill.h"
#include "cli/simulation/commands.h"
#include "cli/simulation/simulate_input.h"
#include "sim/history/import.h"
#include "sim/history/report.h"
#include "sim/page.h"
#include "sim/simulator.h"

namespace arena::cli {
namespace {

constexpr std::size_t max_history_bytes = std::size_t{2} << 30;
constexpr std::size_t max_nodes_bytes = std::size_t{256} << 20;

// ---- import -------------------------------------------------------------------------------------

struct ImportOptions {
    std::string history, nodes, models, out;
    bool hide_names = false;
};

std::string trace_of(const std::string& folder) { return folder + "/trace.csv"; }
std::string cluster_file_of(const std::string& folder) { return folder + "/cluster.yaml"; }

Status make_folder(const std::string& path) {
    if (::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return Done{};
    return environment_error(std::strerror(errno), path);
}

struct Imported {
    sim::Import history;
    sim::Cluster cluster;
};

Result<Imported> read_history(const ImportOptions& given) {
    const Result<std::string> nodes_text = read_user_file(given.nodes, max_nodes_bytes);
    if (!nodes_text) return nodes_text.error();
    const auto nodes = sim::parse_nodes(*nodes_text, given.nodes);
    if (!nodes) return nodes.error();
    sim::ImportOptions options;
    options.hide_names = given.hide_names;
    if (!given.models.empty()) {
        const Result<std::string> text = read_user_file(given.models, max_model_rules_bytes);
        if (!text) return text.error();
        auto rules = parse_model_rules(*text, given.models);
        if (!rules) return rules.error();
        for (const ModelRule& rule : *rules)
            if (const Result<Model> model = trace_model(rule.model); !model)
                return usage_error(model.error().message(), given.models);
        options.models = std::move(*rules);
    }
    const Result<std::string> text = read_user_file(given.history, max_history_bytes);
    if (!text) return text.error();
    const auto jobs = sim::parse_sacct(*text, given.history);
    if (!jobs) return jobs.error();
    Result<sim::Import> imported = sim::import_history(*jobs, *nodes, options, given.history);
    if (!imported) return imported.error();
    return Imported{std::move(*imported), sim::cluster_of(*nodes)};
}

Json json_of(const sim::ImportCounts& c) {
    return {{"rows", c.rows},         {"jobs", c.jobs},     {"mapped", c.mapped},
            {"requeued", c.requeued}, {"states", c.states}, {"still_running", c.still_running},
            {"left_out", c.left_out}};
}

void print_counts(const sim::ImportCounts& c, const sim::Cluster& cluster,
                  const std::string& folder) {
    fmt::print("{}: {} of {}, {} of them with a model; {} of {}\n", folder, counted(c.jobs, "job"),
               counted(c.rows, "row"), c.mapped, counted(cluster.gpus(), "GPU"),
               join(cluster.gpu_types(), ", "));
    if (c.requeued > 0) fmt::print("  {} are later lives of requeued jobs\n", c.requeued);
    if (c.still_running > 0)
        fmt::print("  {} still ran: they count to the last time in the file\n", c.still_running);
    for (const auto& [reason, count] : c.left_out)
        fmt::print("  left out: {} {}\n", counted(count, "row"), reason);
    fmt::print("next: arena trace report {}\n", folder);
}

int import(const Globals& globals, const ImportOptions& given) {
    const Result<Imported> imported = read_history(given);
    if (!imported) return fail(globals, imported.error());
    if (const Status made = make_folder(given.out); !made) return fail(globals, made.error());
    for (const auto& [path, text] :
         {std::pair(trace_of(given.out), sim::format_trace(imported->history.jobs)),
          std::pair(cluster_file_of(given.out), sim::format_cluster(imported->cluster))})
        if (const Status written = write_file_atomic(path, text); !written)
            return fail(globals, written.error());
    const sim::ImportCounts& counts = imported->history.counts;
    if (globals.json) {
        Json json = json_of(counts);
        json["schema_version"] = 1;
        json["gpus"] = imported->cluster.gpus();
        fmt::print("{}\n", dump_json(json));
    } else {
        print_counts(counts, imported->cluster, given.out);
    }
    return exit_yes;
}

// ---- report -------------------------------------------------------------------------------------

struct ReportOptions {
    std::string folder, html;
    std::vector<double> elastic{0, 0.2, 0.5, 1};
    double within_s = 60;
    double gap_s = 5;
    PlannerOptions planner;
};

struct Report {
    std::vector<sim::Metrics> runs;  ///< as it was, the replay of stock, Arena's
    sim::ReplayError error;
    std::int64_t mapped = 0;
    /// Jobs with a model that are replayed as requested, by GPU type: it has no hardware entry.
    std::map<std::string, std::int64_t> as_requested;
};

/// A replay is compared with what was, a run of Arena's with the replay: both are simulated.
const sim::Metrics& beside(const Report& report, std::size_t run) {
    return report.runs[run < 2 ? 0 : 1];
}

Result<Report> run_report(const sim::Workload& workload, const ReportOptions& given) {
    Report out;
    for (const sim::SimJob& job : workload.jobs) {
        if (job.started_s < 0)
            return usage_error("start_time: a report needs it of every job: arena trace import",
                               trace_of(given.folder));
        out.mapped += job.rigid ? 0 : 1;
    }
    out.runs.push_back(sim::metrics_as_recorded(workload, !given.html.empty()));
    sim::SimulationOptions options;
    options.keep_stays = !given.html.empty();
    options.only_events = true;  // as backfill is simulated
    Result<sim::Metrics> replay =
        sim::simulate(workload, "backfill, replayed", &decide_slurm_backfill, options);
    if (!replay) return replay.error();
    out.error = sim::replay_error(workload, *replay, given.within_s);
    out.runs.push_back(std::move(*replay));
    options.only_events = false;
    options.min_gap_s = given.gap_s;
    options.ordinary = true;
    options.policy.order = QueueOrder::priority;
    for (const double share : given.elastic) {
        if (out.mapped == 0) break;  // nothing would be Arena's
        options.elastic_share = share;
        Result<sim::Metrics> run =
            sim::simulate(workload, fmt::format("arena, {:g}% elastic", 100 * share),
                          &decide_arena_beside_slurm, options);
        if (!run) return run.error();
        out.runs.push_back(std::move(*run));
    }
    for (std::size_t i = 1; i < out.runs.size(); ++i)
        out.runs[i].beside.push_back(sim::beside_of(out.runs[i], beside(out, i)));
    return out;
}

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

double gpu_hours_idle(const sim::Workload& workload, const sim::Metrics& m) {
    constexpr double hour_s = 3600;
    return (1 - m.gpu_utilization) * static_cast<double>(workload.gpus()) * m.makespan_s / hour_s;
}

std::string replay_text(const sim::ReplayError& e) {
    return fmt::format(
        "Replayed by our backfill, {:.1f} % of {} start within {:g} s of when they did (off by "
        "{:.0f} s "
        "in the median, {:.0f} s in 90 %); {:.1f} % start earlier, {:.1f} % later. A trace has no "
        "partitions, QOS limits, reservations, broken nodes, or CPUs and memory of other jobs.",
        100 * e.met, counted(e.jobs, "job"), e.within_s, e.off_s.p50, e.off_s.p90, 100 * e.earlier,
        100 * e.later);
}

void print_report(const sim::Workload& workload, const Report& report) {
    Table table({{"RUN", false, Wide::whole},
                 {"WAIT mean", true},
                 {"p50", true},
                 {"p90", true},
                 {"JCT mean", true},
                 {"WITH MODEL", true},
                 {"ORDINARY", true},
                 {"ORDINARY WAIT", true},
                 {"LATER", true},
                 {"ORDINARY LATER", true},
                 {"GPUS USED", true},
                 {"IDLE GPU-HOURS", true},
                 {"MOVES", true}});
    for (std::size_t i = 0; i < report.runs.size(); ++i) {
        const sim::Metrics& m = report.runs[i];
        const sim::Sides sides = sim::sides_of(workload, m, beside(report, i));
        std::vector<std::string> row{m.policy};
        for (const double s : {m.queuing_s.mean, m.queuing_s.p50, m.queuing_s.p90, m.jct_s.mean,
                               sides.model_jct_s, sides.ordinary_jct_s, sides.ordinary_wait_s})
            row.push_back(fmt::format("{:.0f}", s));
        row.push_back(m.beside.empty() ? "" : percent(m.beside.front().above_1_1));
        row.push_back(m.beside.empty() ? "" : percent(sides.ordinary_later));
        row.push_back(percent(m.gpu_utilization));
        row.push_back(fmt::format("{:.0f}", gpu_hours_idle(workload, m)));
        row.push_back(std::to_string(m.restarts - m.jobs));
        table.add(std::move(row));
    }
    fmt::print("{}{}\n", table.text(), replay_text(report.error));
    fmt::print(
        "{} of {} have a model. The others stay ordinary jobs: Slurm's backfill starts them.\n",
        report.mapped, counted(workload.jobs.size(), "job"));
    if (report.mapped == 0)
        fmt::print(
            "Arena would do nothing: say what some of them train, arena trace import --models\n");
    for (const auto& [type, jobs] : report.as_requested)
        fmt::print(
            "replayed as requested: {} with a model on GPUs of type {}, which has no hardware "
            "entry; map it in gpu_types of arena.yaml, or add one with --hardware\n",
            counted(jobs, "job"), type);
    if (workload.dropped > 0)
        fmt::print(
            "left out: {} that the cluster of today does not hold, or of unequal GPUs on its "
            "nodes\n",
            counted(workload.dropped, "job"));
}

void print_json_report(const sim::Workload& workload, const Report& report) {
    const sim::ReplayError& e = report.error;
    std::vector<std::string> runs;
    for (std::size_t i = 0; i < report.runs.size(); ++i) {
        const sim::Sides s = sim::sides_of(workload, report.runs[i], beside(report, i));
        std::string run = sim::metrics_json(report.runs[i]);
        run.pop_back();
        runs.push_back(run + ",\"by_kind\":" +
                       dump_json({{"with_model_jct_s", s.model_jct_s},
                                  {"ordinary_jct_s", s.ordinary_jct_s},
                                  {"ordinary_wait_s", s.ordinary_wait_s},
                                  {"ordinary_later", s.ordinary_later}}) +
                       "}");
    }
    const Json head{{"schema_version", 1},
                    {"jobs", workload.jobs.size()},
                    {"with_model", report.mapped},
                    {"as_requested", report.as_requested},
                    {"replay",
                     {{"jobs", e.jobs},
                      {"within_s", e.within_s},
                      {"met", e.met},
                      {"earlier", e.earlier},
                      {"later", e.later},
                      {"off_s", {{"p50", e.off_s.p50}, {"p90", e.off_s.p90}}}}}};
    std::string text = dump_json(head);
    text.pop_back();
    fmt::print("{},\"runs\":[{}]}}\n", text, join(runs, ","));
}

int report(const Globals& globals, const ReportOptions& given) {
    const WorkloadFiles files{cluster_file_of(given.folder), trace_of(given.folder), "",
                              given.planner};
    std::map<std::string, std::int64_t> as_requested;
    const Result<sim::Workload> workload = read_workload(globals, files, {}, &as_requested);
    if (!workload) return fail(globals, workload.error());
    Result<Report> made = run_report(*workload, given);
    if (!made) return fail(globals, made.error());
    made->as_requested = std::move(as_requested);
    if (!given.html.empty()) {
        const sim::PageFacts facts{
            {"history", fmt::format("{}: {}, {} of them with a model", files.trace,
                                    counted(workload->jobs.size(), "job"), made->mapped)},
            {"cluster", fmt::format("{}: {}", files.cluster, counted(workload->gpus(), "GPU"))},
            {"replay", replay_text(made->error)}};
        const std::string page = sim::page_html(*workload, made->runs, std::nullopt, facts);
        if (const Status written = write_file_atomic(given.html, page); !written)
            return fail(globals, written.error());
    }
    if (globals.json) {
        print_json_report(*workload, *made);
    } else {
        print_report(*workload, *made);
    }
    return exit_yes;
}

void add_import(CLI::App& trace, Globals& globals) {
    CLI::App* command = trace.add_subcommand("import", "make a trace of Slurm's accounting");
    auto given = std::make_shared<ImportOptions>();
    command->add_option("FILE", given->history, "what sacct -P printed: see arena(1)")->required();
    command->add_option("--nodes", given->nodes, "what scontrol -o show node printed")->required();
    command->add_option("--models", given->models, "YAML: what some of the jobs trained");
    command->add_option("--out", given->out, "folder to write")->required();
    command->add_flag("--hide-names", given->hide_names, "number the accounts");
    command->callback([&globals, given] { globals.status = import(globals, *given); });
}

void add_report(CLI::App& trace, Globals& globals) {
    CLI::App* command =
        trace.add_subcommand("report", "what a recorded month would have been under Arena");
    auto given = std::make_shared<ReportOptions>();
    given->planner.on = given->planner.leaves_out = true;
    command->add_option("FOLDER", given->folder, "of arena trace import")->required();
    command
        ->add_option("--elastic", given->elastic,
                     "shares of the jobs with a model that are elastic, one run each")
        ->delimiter(',')
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    command->add_option("--within", given->within_s, "a replayed start is met so near, s")
        ->check(CLI::Range(1.0, 86400.0))
        ->capture_default_str();
    command->add_option("--min-gap", given->gap_s, "shortest time between decisions of Arena, s")
        ->check(CLI::Range(0.0, 3600.0))
        ->capture_default_str();
    command->add_option("--hardware", given->planner.hardware, "more hardware entries");
    command->add_option("--launcher", given->planner.launcher, "whose plans")
        ->capture_default_str();
    command->add_option("--html", given->html, "also write a page with charts to this file");
    command->callback([&globals, given] { globals.status = report(globals, *given); });
}

}  // namespace

void add_trace_history(CLI::App& trace, Globals& globals) {
    add_import(trace, globals);
    add_report(trace, globals);
}

}  // namespace arena::cli
