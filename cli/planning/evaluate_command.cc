// SPDX-License-Identifier: GPL-2.0-or-later
// `arena evaluate`: prices every row of a table of measured runs and says how far off the planner
// was. The JSON is a contract (arena(1)).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/count_text.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/planning/commands.h"
#include "cli/planning/site_tables.h"
#include "planner/evaluate/evaluate.h"

namespace arena::cli {
namespace {

struct EvaluateArguments {
    std::string table, hardware, calibration, out, by = "source", ids = "all", confidence = "AB";
};

bool is_wanted(const MeasuredRow& row, const EvaluateArguments& a) {
    if (a.ids == "even" && row.id % 2 != 0) return false;
    if (a.ids == "odd" && row.id % 2 == 0) return false;
    return row.confidence.empty() || a.confidence.find(row.confidence) != std::string::npos;
}

std::string key_of(const MeasuredRow& row, const std::string& by) {
    if (by == "framework") return row.framework;
    if (by == "gpu") return row.gpu;
    return row.source;
}

std::string csv_field(std::string_view text) {
    std::string field = "\"";
    for (char c : text) {
        if (c == '"') field += '"';
        field += c;
    }
    return field + '"';
}

std::string csv_of(const std::vector<EvaluatedRow>& rows) {
    std::string csv =
        "id,source,framework,gpu,gpus,tp,pp,dp,mbs,gbs,status,measured_s,estimated_s,error,compute_"
        "s,"
        "tp_comm_s,pp_comm_s,dp_comm_s,bubble_s,optimizer_s,measured_gb,estimated_gb,fits,error_"
        "bound,reason\n";
    for (const EvaluatedRow& r : rows) {
        const MeasuredRow& m = *r.row;
        const Estimate& e = r.estimate;
        csv += fmt::format("{},{},{},{},{},{},{},{},{},{},{},", m.id, csv_field(m.source),
                           csv_field(m.framework), csv_field(m.gpu), m.gpus, m.tp, m.pp, m.dp,
                           m.micro_batch, m.global_batch, csv_field(m.status));
        csv +=
            fmt::format("{},{:.6g},{},{:.5g},{:.5g},{:.5g},{:.5g},{:.5g},{:.5g},",
                        m.iteration_s ? fmt::format("{:.6g}", *m.iteration_s) : "", e.iteration_s,
                        r.timed() ? fmt::format("{:.5f}", r.error()) : "", e.compute_s, e.tp_comm_s,
                        e.pp_comm_s, e.dp_comm_s, e.bubble_s, e.optimizer_s);
        csv += fmt::format(
            "{},{:.5g},{},{:.3f},{}\n", m.memory_gb ? fmt::format("{}", *m.memory_gb) : "",
            e.memory_bytes_per_gpu / 1e9, r.fits ? 1 : 0, e.error_bound, csv_field(r.reason));
    }
    return csv;
}

Json json_of(const ErrorSummary& s) {
    return {{"n", s.n},
            {"skipped", s.skipped},
            {"mean_abs", s.mean_abs},
            {"median_abs", s.median_abs},
            {"p90_abs", s.p90_abs},
            {"bias", s.bias}};
}

struct Report {
    std::map<std::string, ErrorSummary> sources;
    ErrorSummary all;
    ChoiceSummary choice;
    MemorySummary memory;
    struct Skipped {
        std::size_t n = 0, line = 0;  ///< of the first
    };
    std::map<std::string, Skipped> reasons;
    std::map<std::string, std::size_t> frameworks, devices,
        networks;  ///< not in the table of constants
};

std::string network_of(const MeasuredRow& row) {
    return row.inter_gbps ? fmt::format("{}, {} Gbit/s", row.intra_link, *row.inter_gbps)
                          : row.intra_link;
}

Report make_report(const std::vector<EvaluatedRow>& rows, const std::string& by) {
    Report report;
    report.sources = summarise_by(rows, [&](const MeasuredRow& row) { return key_of(row, by); });
    std::vector<const EvaluatedRow*> all;
    for (const EvaluatedRow& row : rows) {
        all.push_back(&row);
        if (!row.priced()) {
            Report::Skipped& skipped = report.reasons[row.reason];
            if (skipped.n++ == 0) skipped.line = row.row->line;
            continue;
        }
        if (!row.known_framework) ++report.frameworks[row.row->framework];
        if (!row.known_device) ++report.devices[row.row->gpu];
        if (!row.known_network) ++report.networks[network_of(*row.row)];
    }
    report.all = summarise(all);
    report.choice = summarise_choice(rows);
    report.memory = summarise_memory(rows);
    return report;
}

/// [{"reason", "n", "line" of the first}]
Json skipped_of(const Report& report) {
    Json list = Json::array();
    for (const auto& [reason, skipped] : report.reasons)
        list.push_back({{"reason", reason}, {"n", skipped.n}, {"line", skipped.line}});
    return list;
}

/// [{"<what>": name, "n": rows}]
Json counts_of(const std::map<std::string, std::size_t>& counts, const char* what) {
    Json list = Json::array();
    for (const auto& [name, n] : counts) list.push_back({{what, name}, {"n", n}});
    return list;
}

void print_json(const Report& report, const std::string& by, const Error* error) {
    Json sources = Json::array();
    for (const auto& [name, summary] : report.sources) {
        sources.push_back(json_of(summary));
        sources.back()[by] = name;
    }
    const ChoiceSummary& c = report.choice;
    const MemorySummary& m = report.memory;
    Json document{{"schema_version", 1},
                  {"sources", sources},
                  {"all", json_of(report.all)},
                  {"choice",
                   {{"groups", c.groups},
                    {"pairs", c.pairs},
                    {"regret_mean", c.regret_mean},
                    {"regret_max", c.regret_max},
                    {"pair_order", c.pair_order},
                    {"kendall_tau", c.kendall_tau}}},
                  {"memory",
                   {{"ok", m.ok},
                    {"ok_fits", m.ok_fits},
                    {"oom", m.oom},
                    {"oom_refused", m.oom_refused},
                    {"bytes", json_of(m.bytes)}}},
                  {"skipped", skipped_of(report)},
                  {"unknown_frameworks", counts_of(report.frameworks, "framework")},
                  {"unknown_devices", counts_of(report.devices, "gpu")},
                  {"unknown_networks", counts_of(report.networks, "network")}};
    if (error != nullptr) document["error"] = {{"text", error->text}, {"where", error->where}};
    fmt::print("{}\n", dump_json(document));
}

void print_text(const Report& report, const std::string& by) {
    Table table({{by},
                 {"rows", true},
                 {"skipped", true},
                 {"mean |error|", true},
                 {"median", true},
                 {"p90", true},
                 {"bias", true}});
    const auto add = [&](const std::string& name, const ErrorSummary& s) {
        const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
        table.add({name, fmt::format("{}", s.n), fmt::format("{}", s.skipped), percent(s.mean_abs),
                   percent(s.median_abs), percent(s.p90_abs),
                   fmt::format("{:+.1f} %", 100 * s.bias)});
    };
    for (const auto& [name, summary] : report.sources) add(name, summary);
    add("all", report.all);
    add("memory", report.memory.bytes);
    fmt::print("{}", table.text());
    const ChoiceSummary& c = report.choice;
    fmt::print(
        "\nchoice of plan: {} groups, regret mean {:.1f} % max {:.1f} %, {:.1f} % of {} pairs "
        "ranked right, Kendall tau {:.2f}\n",
        c.groups, 100 * c.regret_mean, 100 * c.regret_max, 100 * c.pair_order, c.pairs,
        c.kendall_tau);
    fmt::print("memory: {} of {} runs that ran fit, {} of {} that did not are refused\n",
               report.memory.ok_fits, report.memory.ok, report.memory.oom_refused,
               report.memory.oom);
    for (const auto& [what, counts] :
         {std::pair<const char*, const std::map<std::string, std::size_t>&>{"framework",
                                                                            report.frameworks},
          {"GPU type", report.devices},
          {"network", report.networks}})
        for (const auto& [name, n] : counts)
            fmt::print("{} '{}' ({}) is not in the table: the default's constants\n", what,
                       printable(name, 60), counted(n, "row"));
    for (const auto& [reason, skipped] : report.reasons)
        fmt::print("skipped {}: {} ({} {})\n", counted(skipped.n, "row"), reason,
                   skipped.n == 1 ? "line" : "first in line", skipped.line);
}

int evaluate(const Globals& globals, const EvaluateArguments& arguments) {
    const auto text = read_user_file(arguments.table, max_measured_bytes);
    if (!text) return fail(globals, text.error());
    auto rows = parse_measured(*text, arguments.table);
    if (!rows) return fail(globals, rows.error());
    const auto tables = read_site_tables(globals, arguments.hardware, arguments.calibration);
    if (!tables) return fail(globals, tables.error());
    std::erase_if(*rows, [&](const MeasuredRow& row) { return !is_wanted(row, arguments); });
    const auto evaluated = evaluate_rows(*rows, {tables->hardware, tables->calibration});
    if (!arguments.out.empty()) {
        if (Status s = write_file_atomic(arguments.out, csv_of(evaluated)); !s)
            return fail(globals, s.error());
    }
    const Report report = make_report(evaluated, arguments.by);
    const Error none = no_error("no row could be priced", arguments.table);
    const Error* error = report.all.n > 0 ? nullptr : &none;
    if (globals.json) {
        print_json(report, arguments.by, error);
    } else {
        print_text(report, arguments.by);
    }
    if (error != nullptr) fmt::print(stderr, "arena: {}\n", error->message());
    return error == nullptr ? exit_yes : exit_no;
}

}  // namespace

void add_evaluate(CLI::App& app, Globals& globals) {
    CLI::App* command =
        app.add_subcommand("evaluate", "price a table of measured runs and show the errors");
    const auto a = std::make_shared<EvaluateArguments>();
    command->add_option("table", a->table, "CSV of measured runs (arena(1) lists the columns)")
        ->required();
    command->add_option("--hardware", a->hardware, "more hardware entries (YAML)");
    command->add_option("--calibration", a->calibration, "constants over the built-in ones (YAML)");
    command->add_option("--out", a->out, "write every row with its estimate and breakdown (CSV)");
    command->add_option("--by", a->by, "source, framework or gpu [source]")
        ->check(CLI::IsMember({"source", "framework", "gpu"}));
    command->add_option("--ids", a->ids, "all, even or odd [all]")
        ->check(CLI::IsMember({"all", "even", "odd"}));
    command->add_option("--confidence", a->confidence, "grades to use, of A, B, C [AB]");
    command->callback([&globals, a] { globals.status = evaluate(globals, *a); });
}

}  // namespace arena::cli
