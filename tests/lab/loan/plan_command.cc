// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab loan plan`: solves a file that evaluate-loan knows, with or without the answers in it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "tests/lab/loan/commands.h"
#include "tests/lab/loan/kinds.h"

namespace arena::cli {
namespace {

/// Lists and maps without quotes and brackets.
std::string text_of(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
    if (!value.is_structured()) return dump_json(value);
    std::vector<std::string> parts;
    for (const auto& [key, one] : value.items())
        parts.push_back(value.is_object() ? key + ":" + text_of(one) : text_of(one));
    return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ","));
}

void print_text(const LoanKind& kind, const Json& answers) {
    std::vector<Table::Column> columns;
    for (const std::string_view column : kind.columns)
        columns.push_back({.title = std::string(column)});
    Table table(columns);
    for (const Json& answer : answers) {
        std::vector<std::string> row;
        for (const std::string_view column : kind.columns)
            row.push_back(text_of(answer[std::string(column)]));
        table.add(std::move(row));
    }
    fmt::print("{}: {}\n{}", kind.name, kind.mode, table.text());
}

int plan(const Globals& globals, const std::string& path) {
    const Result<LoanFile> file = read_loan_file(path);
    if (!file) return fail(globals, file.error());
    struct Context {
        const LoanKind* kind;
        Json answers = Json::array();
    } context{.kind = file->kind};
    const Status status = each_loan_case(
        *file,
        [](const LoanCase& one, void* given) -> Status {
            auto* own_context = static_cast<Context*>(given);
            Result<Json> own = own_context->kind->solve(one);
            if (!own) return own.error();
            own_context->answers.push_back(std::move(*own));
            return Done{};
        },
        &context);
    if (!status) return fail(globals, status.error());
    if (globals.json) {
        fmt::print("{}\n", dump_json({{"schema_version", 1},
                                      {"kind", file->kind->name},
                                      {"mode", file->kind->mode},
                                      {"instances", context.answers}}));
    } else {
        print_text(*file->kind, context.answers);
    }
    return exit_yes;
}

}  // namespace

void add_lab_loan(CLI::App& app, Globals& globals) {
    CLI::App& group = *app.add_subcommand("loan", "inference nodes that are lent to training");
    group.require_subcommand(1);
    CLI::App* command =
        group.add_subcommand("plan", "servers to return, or GPUs to give out, for a file of cases");
    const auto file = std::make_shared<std::string>();
    command->add_option("file", *file, "JSON, as evaluate-loan takes it")->required();
    command->callback([&globals, file] { globals.status = plan(globals, *file); });
}

}  // namespace arena::cli
