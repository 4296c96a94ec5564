// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab slowdown detect|period|locate|mitigate`: solves a file that evaluate-slowdown knows,
// with or without the answers in it. `show --accuracy`: accuracy.h.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <set>

#include "cli/cluster/job_id.h"
#include "tests/lab/slowdown/accuracy.h"
#include "tests/lab/slowdown/commands.h"
#include "tests/lab/slowdown/kinds.h"

namespace arena::cli {
namespace {

struct Arguments {
    std::string file;
    slowdown::DetectorOptions detector;
    bool no_verify = false;
};

Error not_for(std::string_view command, const SlowdownProblem& problem, const std::string& file) {
    std::set<std::string_view> others;
    if (!problem.kind->command.empty() && problem.kind->solve) others.insert(problem.kind->command);
    return usage_error(
        others.empty() || *others.begin() == command
            ? fmt::format("has answers of kind {}, and nothing to solve", problem.kind->name)
            : fmt::format("is of kind {}: arena-lab slowdown {}", problem.kind->name,
                          *others.begin()),
        file);
}

int solve(const Globals& globals, std::string_view command, const Arguments& arguments) {
    const auto problems = read_slowdown_files({arguments.file}, false);
    if (!problems) return fail(globals, problems.error());
    const SlowdownProblem& problem = problems->front();
    const bool is_ours =
        problem.kind->command == command && problem.files.has(problem.kind->parts.front().role);
    if (!is_ours) return fail(globals, not_for(command, problem, arguments.file));
    slowdown::DetectorOptions options = arguments.detector;
    options.verify = !arguments.no_verify;
    auto answer = problem.kind->solve(problem.files, options);
    if (!answer) return fail(globals, answer.error());
    if (globals.json) {
        answer->json["schema_version"] = 1;
        answer->json["kind"] = problem.kind->name;
        fmt::print("{}\n", dump_json(answer->json));
        return exit_yes;
    }
    std::vector<Table::Column> columns;
    for (const std::string& title : answer->columns) columns.push_back({title});
    Table table(columns);
    for (auto& row : answer->rows) table.add(std::move(row));
    fmt::print("{}", table.text());
    return exit_yes;
}

void add_show_to(CLI::App& group, Globals& globals) {
    CLI::App* command = group.add_subcommand("show", "what one job says");
    const auto files = std::make_shared<AccuracyFiles>();
    command->add_option("jobid", files->job, "job id")->transform(job_id());
    command
        ->add_option(
            "--accuracy", files->log,
            "log of arena-train --log: how far the job's estimated iteration times are its own")
        ->required();
    command->add_option("--watched", files->watched,
                        "events.jsonl of the watched job, or its directory [arena-watch-JOBID]");
    command->callback([&globals, files] { globals.status = show_accuracy(globals, *files); });
}

}  // namespace

void add_lab_slowdown(CLI::App& app, Globals& globals) {
    CLI::App& group = *app.add_subcommand("slowdown", "slow GPUs and links, and what is done");
    group.require_subcommand(1);
    const auto add = [&](const char* name, const char* about) {
        CLI::App* command = group.add_subcommand(name, about);
        const auto a = std::make_shared<Arguments>();
        command->add_option("file", a->file, "CSV or JSON, as evaluate-slowdown takes it")
            ->required();
        if (std::string_view(name) == "detect") {
            command
                ->add_option("--threshold", a->detector.threshold,
                             "ratio of two levels that counts [1.10]")
                ->check(CLI::Range(1.001, 100.0));
            command->add_flag("--no-verify", a->no_verify, "report every change point");
        }
        command->callback([&globals, a, name] { globals.status = solve(globals, name, *a); });
    };
    add("detect", "where the level of iteration times changes");
    add("period", "the step that repeats in a stream of communication calls");
    add("locate", "slow GPUs and links by benchmarks; passes of a ring");
    add("mitigate", "split of micro-batches, places of nodes, when a strategy is due");
    add_show_to(group, globals);
}

}  // namespace arena::cli
