// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab array solve`: the schedule of each instance of a file; also as a picture.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/text.h"
#include "tests/lab/array/array_files.h"
#include "tests/lab/array/commands.h"
#include "tests/lab/array/schedule_page.h"

namespace arena::cli {
namespace {

struct Arguments {
    std::string file, html;
    ArrayOptions options;
};

struct Solved {
    array::Instance instance;  ///< under the convention
    array::Solution solution;
};

Json answer_of(const Solved& one, const ArrayOptions& options) {
    const auto& [instance, solution] = one;
    Json json{{"name", instance.name},
              {"jobs", instance.jobs},
              {"stages", instance.stages},
              {"devices", instance.devices},
              {"convention", options.convention},
              {"forward_first", options.rules.forward_first},
              {"in_flight_cap", options.rules.in_flight_cap},
              {"makespan", solution.schedule ? Json(solution.schedule->makespan) : Json()},
              {"bound", solution.bound},
              {"proven", solution.proven},
              {"gap", solution.gap()},
              {"solver", options.solver}};
    if (solution.schedule) json["schedule"] = json_of(instance, *solution.schedule);
    return json;
}

/// "best", "within 1.2 % of the best"...
std::string verdict(const array::Solution& solution) {
    if (!solution.schedule)
        return solution.proven ? "no schedule obeys the rules"
                               : "no schedule was found in the time";
    if (solution.proven) return "a best one";
    return fmt::format("at most {:.2f} % above the best", 100 * solution.gap());
}

void print_text(const std::vector<Solved>& all) {
    Table table({{"instance"},
                 {"members", true},
                 {"stages", true},
                 {"T", true},
                 {"bound", true},
                 {"which is"}});
    for (const auto& [instance, solution] : all)
        table.add({name_or(instance, "-"), fmt::format("{}", instance.jobs),
                   fmt::format("{}", instance.stages),
                   solution.schedule ? fmt::format("{}", solution.schedule->makespan) : "-",
                   fmt::format("{}", solution.bound), verdict(solution)});
    fmt::print("{}", table.text());
}

Status write_page(const Arguments& arguments, const std::vector<Solved>& all) {
    if (all.size() > 1)
        return usage_error(
            fmt::format("a picture is of one instance, and the file has {}", all.size()), "--html");
    const auto& [instance, solution] = all.front();
    if (!solution.schedule) return no_error(verdict(solution), "--html");
    return write_file_atomic(arguments.html,
                             schedule_page(instance, *solution.schedule, verdict(solution)));
}

int run(const Globals& globals, Arguments& arguments) {
    const auto cases = read_array_file(arguments.file);
    if (!cases) return fail(globals, cases.error());
    ArrayOptions& options = arguments.options;
    options.solve.solver = *array::parse_solver(options.solver);
    std::vector<Solved> all;
    bool whole = true;
    for (const auto& one : *cases) {
        array::Instance instance = array::under(one.instance, options.parsed_convention());
        array::Solution solution = array::solve(instance, options.rules, options.solve);
        whole = whole && solution.schedule;
        all.push_back({std::move(instance), std::move(solution)});
    }
    if (!arguments.html.empty())
        if (const auto written = write_page(arguments, all); !written)
            return fail(globals, written.error());
    if (globals.json) {
        Json list = Json::array();
        for (const Solved& one : all) list.push_back(answer_of(one, options));
        fmt::print(
            "{}\n",
            dump_json({{"schema_version", 1}, {"kind", "array-schedule"}, {"instances", list}}));
    } else {
        print_text(all);
    }
    return whole ? exit_yes : exit_no;
}

}  // namespace

void add_array_solve(CLI::App& group, Globals& globals) {
    CLI::App* command = group.add_subcommand("solve", "which block of which member runs when");
    const auto a = std::make_shared<Arguments>();
    command->add_option("file", a->file, "instances as JSON (arena-array(5))")->required();
    add_rule_options(*command, a->options);
    command->add_option("--solver", a->options.solver, "choose | list | genetic | exact [choose]")
        ->check(CLI::IsMember({"choose", "list", "genetic", "exact"}));
    command->add_option("--limit", a->options.solve.seconds, "seconds for each instance [3]")
        ->check(CLI::Range(0.01, 86400.0));
    command->add_option("--seed", a->options.solve.seed, "of the genetic search [1]");
    command->add_option("--html", a->html, "write a picture of the schedule to this file");
    command->callback([&globals, a] { globals.status = run(globals, *a); });
}

}  // namespace arena::cli
