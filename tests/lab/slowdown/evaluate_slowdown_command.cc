// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab evaluate-slowdown`: files with known answers, held against our own. The JSON is a
// contract (arena(1)).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "tests/lab/slowdown/commands.h"
#include "tests/lab/slowdown/kinds.h"

namespace arena::cli {
namespace {

struct Arguments {
    std::vector<std::string> files;
    slowdown::DetectorOptions detector;
    bool no_verify = false;
};

/// By kind, in the order of the files.
using Reports = std::vector<std::pair<std::string_view, SlowdownReport>>;

SlowdownReport& report_of(Reports& reports, std::string_view kind) {
    for (auto& [name, report] : reports)
        if (name == kind) return report;
    return reports.emplace_back(kind, SlowdownReport{}).second;
}

Error incomplete(const SlowdownProblem& problem, const SlowdownKind::Part& part) {
    return usage_error(fmt::format("a file with {} is needed beside it ({}{}), or to be named too",
                                   fmt::join(part.words, ", "), problem.stem, part.suffix),
                       problem.stem);
}

Result<Reports> evaluate_all(const std::vector<SlowdownProblem>& problems,
                             const slowdown::DetectorOptions& options) {
    Reports reports;
    for (const SlowdownProblem& problem : problems) {
        if (const auto* part = missing_part(problem)) return incomplete(problem, *part);
        SlowdownReport& report = report_of(reports, problem.kind->name);
        const std::size_t before = report.cases;
        const Status status = problem.kind->evaluate(problem.files, options, report);
        if (!status) return status.error();
        if (report.cases == before) return usage_error("there is no case in it", problem.stem);
    }
    return reports;
}

Json json_of(const Reports& reports) {
    std::vector<std::string_view> kinds;
    std::size_t cases = 0;
    Json failed = Json::array(), metrics = Json::object();
    for (const auto& [kind, report] : reports) {
        kinds.push_back(kind);
        cases += report.cases;
        for (const Json& one : report.failed) failed.push_back(one);
        if (reports.size() == 1)
            metrics = report.metrics;
        else
            metrics[std::string(kind)] = report.metrics;
    }
    return {{"schema_version", 1}, {"kind", fmt::format("{}", fmt::join(kinds, ","))},
            {"cases", cases},      {"passed", cases - failed.size()},
            {"failed", failed},    {"metrics", metrics}};
}

void print_text(const Reports& reports) {
    for (const auto& [kind, report] : reports) {
        fmt::print("{}: {} of {} cases passed\n", kind, report.cases - report.failed.size(),
                   report.cases);
        for (const Json& one : report.failed)
            fmt::print("  failed {}: {} instead of {}\n", one["case"].get<std::string>(),
                       dump_json(one["got"]), dump_json(one["want"]));
        for (const auto& [name, value] : report.metrics.items())
            if (!value.is_array() || !value.empty())
                fmt::print("  {}: {}\n", name, dump_json(value));
    }
}

int evaluate(const Globals& globals, const Arguments& arguments) {
    const auto problems = read_slowdown_files(arguments.files, true);
    if (!problems) return fail(globals, problems.error());
    slowdown::DetectorOptions options = arguments.detector;
    options.verify = !arguments.no_verify;
    const auto reports = evaluate_all(*problems, options);
    if (!reports) return fail(globals, reports.error());
    const Json document = json_of(*reports);
    if (globals.json)
        fmt::print("{}\n", dump_json(document));
    else
        print_text(*reports);
    return document["failed"].empty() ? exit_yes : exit_no;
}

}  // namespace

void add_evaluate_slowdown(CLI::App& app, Globals& globals) {
    CLI::App* command = app.add_subcommand(
        "evaluate-slowdown", "hold answers about slowdowns against files with known ones");
    const auto a = std::make_shared<Arguments>();
    command->add_option("files", a->files, "CSV or JSON; their kind is told by columns or keys")
        ->required();
    command->add_flag("--no-verify", a->no_verify,
                      "report every change point: what verification is for");
    command->callback([&globals, a] { globals.status = evaluate(globals, *a); });
}

}  // namespace arena::cli
