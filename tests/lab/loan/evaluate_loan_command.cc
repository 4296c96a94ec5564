// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab evaluate-loan`: files with known answers, held against our own. The JSON is a contract
// (arena(1)).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "tests/lab/loan/commands.h"
#include "tests/lab/loan/kinds.h"

namespace arena::cli {
namespace {

/// By kind, in the order of the files.
using Reports = std::vector<std::pair<const LoanKind*, LoanReport>>;

LoanReport& report_of(Reports& reports, const LoanKind* kind) {
    for (auto& [known, report] : reports)
        if (known == kind) return report;
    return reports.emplace_back(kind, LoanReport{}).second;
}

Status evaluate_file(const std::string& path, Reports& reports) {
    const Result<LoanFile> file = read_loan_file(path);
    if (!file) return file.error();
    struct Context {
        const LoanKind* kind;
        LoanReport* report;
    } context{file->kind, &report_of(reports, file->kind)};
    return each_loan_case(
        *file,
        [](const LoanCase& one, void* given) -> Status {
            const auto* own_context = static_cast<const Context*>(given);
            const Result<Json> own = own_context->kind->solve(one);
            if (!own) return own.error();
            if (one.fields.ok()) own_context->kind->evaluate(one, *own, *own_context->report);
            return Done{};
        },
        &context);
}

Json json_of(const Reports& reports) {
    std::vector<std::string_view> kinds;
    std::size_t cases = 0;
    Json failed = Json::array(), metrics = Json::object();
    for (const auto& [kind, report] : reports) {
        kinds.push_back(kind->name);
        cases += report.cases;
        for (const Json& one : report.failed) failed.push_back(one);
        if (reports.size() == 1)
            metrics = report.metrics;
        else
            metrics[std::string(kind->name)] = report.metrics;
    }
    return {{"schema_version", 1}, {"kind", fmt::format("{}", fmt::join(kinds, ","))},
            {"cases", cases},      {"passed", cases - failed.size()},
            {"failed", failed},    {"metrics", metrics}};
}

void print_text(const Reports& reports) {
    for (const auto& [kind, report] : reports) {
        fmt::print("{}: {} of {} cases passed ({})\n", kind->name,
                   report.cases - report.failed.size(), report.cases, kind->mode);
        for (const Json& one : report.failed)
            fmt::print("  failed {}: {} instead of {}\n", one["case"].get<std::string>(),
                       dump_json(one["got"]), dump_json(one["want"]));
        for (const auto& [name, value] : report.metrics.items())
            fmt::print("  {}: {:.6g}\n", name, value.get<double>());
    }
}

int evaluate(const Globals& globals, const std::vector<std::string>& files) {
    Reports reports;
    for (const std::string& path : files)
        if (const Status status = evaluate_file(path, reports); !status)
            return fail(globals, status.error());
    for (auto& [kind, report] : reports)
        if (kind->finish != nullptr) kind->finish(report);
    const Json document = json_of(reports);
    if (globals.json)
        fmt::print("{}\n", dump_json(document));
    else
        print_text(reports);
    return document["failed"].empty() ? exit_yes : exit_no;
}

}  // namespace

void add_evaluate_loan(CLI::App& app, Globals& globals) {
    CLI::App* command = app.add_subcommand(
        "evaluate-loan", "hold answers about loans against files with known ones");
    const auto files = std::make_shared<std::vector<std::string>>();
    command->add_option("files", *files, "JSON; their kind is told by keys")->required();
    command->callback([&globals, files] { globals.status = evaluate(globals, *files); });
}

}  // namespace arena::cli
