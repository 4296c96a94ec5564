// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab evaluate-array`: instances with known answers, held against our own. The JSON is a
// contract (arena(1)).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "tests/lab/array/array_files.h"
#include "tests/lab/array/commands.h"
#include "tests/lab/array/evaluation.h"

namespace arena::cli {
namespace {

struct Arguments {
    std::vector<std::string> files;
    std::string solver = "exact";
    ArrayEvaluationOptions options;
};

void print_text(const Json& document) {
    fmt::print("{}: {} of {} cases passed\n", document["kind"].get<std::string>(),
               document["passed"].get<std::size_t>(), document["cases"].get<std::size_t>());
    for (const Json& one : document["failed"])
        fmt::print("  failed {}: {} instead of {}\n", one["case"].get<std::string>(),
                   dump_json(one["got"]), dump_json(one["want"]));
    for (const auto& [name, value] : document["metrics"].items())
        if (!value.is_array() || !value.empty()) fmt::print("  {}: {}\n", name, dump_json(value));
}

std::string kinds_of(const std::vector<array::ArrayCase>& cases) {
    std::vector<std::string> kinds;
    for (const auto& one : cases)
        if (std::find(kinds.begin(), kinds.end(), one.kind) == kinds.end())
            kinds.push_back(one.kind);
    return fmt::format("{}", fmt::join(kinds, ","));
}

int evaluate(const Globals& globals, Arguments& arguments) {
    const auto cases = read_array_files(arguments.files);
    if (!cases) return fail(globals, cases.error());
    arguments.options.solver = *array::parse_solver(arguments.solver);
    ArrayEvaluation evaluation(arguments.options);
    for (const auto& one : *cases) {
        if (one.known == array::KnownAnswers{} && one.schedules.empty())
            return fail(
                globals,
                usage_error("nothing is known of it: no `optimal`, no list rule, no schedule",
                            name_or(one.instance, "instance")));
        evaluation.judge(one);
    }
    Json document = evaluation.finish();
    document["schema_version"] = 1;
    document["kind"] = kinds_of(*cases);
    if (globals.json)
        fmt::print("{}\n", dump_json(document));
    else
        print_text(document);
    return document["failed"].empty() ? exit_yes : exit_no;
}

}  // namespace

void add_evaluate_array(CLI::App& app, Globals& globals) {
    CLI::App* command =
        app.add_subcommand("evaluate-array", "hold schedules of arrays against known ones");
    const auto a = std::make_shared<Arguments>();
    command->add_option("files", a->files, "instances as JSON (arena-array(5))")->required();
    command->add_option("--solver", a->solver, "exact | genetic [exact]")
        ->check(CLI::IsMember({"exact", "genetic"}));
    command->add_option("--seeds", a->options.seeds, "runs of the genetic search [1]")
        ->check(CLI::Range(1, 1000));
    command
        ->add_option("--limit", a->options.seconds, "seconds for each search [exact 10, genetic 3]")
        ->check(CLI::Range(0.01, 86400.0));
    command->callback([&globals, a] { globals.status = evaluate(globals, *a); });
}

}  // namespace arena::cli
