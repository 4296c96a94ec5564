// SPDX-License-Identifier: GPL-2.0-or-later
// `arena array compare`: what an array takes by several ways of scheduling it, and what the devices
// do meanwhile.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "array/baselines.h"
#include "array/list_rule.h"
#include "cli/array/array_files.h"
#include "cli/array/commands.h"

namespace arena::cli {
namespace {

using array::Rules;
using array::Schedule;
using array::Solver;

struct Arguments {
    std::string file;
    ArrayOptions options;
};

struct Way {
    std::string name;
    std::optional<Schedule> schedule;
    bool proven = false;
};

/// The caps worth a row: powers of two below the number of members.
std::vector<int> caps_of(const array::Instance& instance) {
    std::vector<int> caps;
    for (int cap = 1; cap < instance.jobs; cap *= 2) caps.push_back(cap);
    return caps;
}

std::vector<Way> ways_of(const array::Instance& instance, const array::SolveOptions& options) {
    std::vector<Way> ways;
    const auto fixed = [&](const char* name, const array::Order& order) {
        auto schedule = array::append(instance, {}, order);
        ways.push_back({name, schedule ? std::optional(std::move(*schedule)) : std::nullopt});
    };
    const auto searched = [&](std::string name, const Rules& rules, Solver solver) {
        array::SolveOptions own = options;
        own.solver = solver;
        auto solution = array::solve(instance, rules, own);
        ways.push_back({std::move(name), std::move(solution.schedule), solution.proven});
    };
    fixed("one after another", array::one_by_one(instance));
    fixed("GPipe's order", array::gpipe_order(instance));
    searched("forward first", {.forward_first = true}, Solver::choose);
    for (const int cap : caps_of(instance))
        searched(fmt::format("{} in flight", cap), {.in_flight_cap = cap}, Solver::choose);
    searched("list rule", {}, Solver::list);
    searched("genetic", {}, Solver::genetic);
    searched("chosen by size", {}, Solver::choose);
    return ways;
}

Json json_of(const array::Instance& instance, const std::vector<Way>& ways) {
    Json list = Json::array();
    for (const Way& way : ways) {
        Json one{{"way", way.name}, {"makespan", nullptr}, {"proven", way.proven}};
        if (way.schedule) {
            const auto parts = array::breakdown(instance, *way.schedule);
            one["makespan"] = way.schedule->makespan;
            one["forward"] = parts.forward;
            one["backward"] = parts.backward;
            one["switching"] = parts.switching;
            one["bubble"] = parts.bubble;
        }
        list.push_back(std::move(one));
    }
    return {{"name", instance.name},
            {"members", instance.jobs},
            {"stages", instance.stages},
            {"ways", list}};
}

std::vector<std::string> row_of(const array::Instance& instance, const Way& way, double first) {
    if (!way.schedule) {
        std::vector<std::string> row(8);
        row[0] = way.name;
        row[1] = way.proven ? "cannot be" : "none found";
        return row;
    }
    const auto parts = array::breakdown(instance, *way.schedule);
    const auto percent = [](double share) { return fmt::format("{:.1f}", 100 * share); };
    const double own = way.schedule->makespan;
    return {way.name,
            fmt::format("{}", way.schedule->makespan),
            fmt::format("{:.1f}", own / instance.jobs),
            own > 0 ? fmt::format("{:.2f}", first / own) : "",
            percent(parts.forward),
            percent(parts.backward),
            percent(parts.switching),
            percent(parts.bubble)};
}

void print_text(const array::Instance& instance, const std::vector<Way>& ways) {
    fmt::print("{}: {} members, {} stages on {} devices\n", name_or(instance, "instance"),
               instance.jobs, instance.stages, instance.devices);
    Table table({{"way"},
                 {"T", true},
                 {"T/member", true},
                 {"speed", true},
                 {"forward %", true},
                 {"backward %", true},
                 {"switch %", true},
                 {"bubble %", true}});
    const double first = ways.front().schedule ? ways.front().schedule->makespan : 0;
    for (const Way& way : ways) table.add(row_of(instance, way, first));
    fmt::print("{}", table.text());
}

int run(const Globals& globals, const Arguments& arguments) {
    const auto cases = read_array_file(arguments.file);
    if (!cases) return fail(globals, cases.error());
    Json list = Json::array();
    for (const auto& one : *cases) {
        const auto instance = array::under(one.instance, arguments.options.parsed_convention());
        const auto ways = ways_of(instance, arguments.options.solve);
        if (globals.json)
            list.push_back(json_of(instance, ways));
        else
            print_text(instance, ways);
    }
    if (globals.json)
        fmt::print(
            "{}\n",
            dump_json({{"schema_version", 1}, {"kind", "array-compare"}, {"instances", list}}));
    return exit_yes;
}

}  // namespace

void add_array_compare(CLI::App& group, Globals& globals) {
    CLI::App* command =
        group.add_subcommand("compare", "what several ways to schedule an array take");
    const auto a = std::make_shared<Arguments>();
    command->add_option("file", a->file, "instances as JSON (arena-array(5))")->required();
    command->add_option("--convention", a->options.convention, "physical | literal [physical]")
        ->check(CLI::IsMember({"physical", "literal"}));
    command->add_option("--limit", a->options.solve.seconds, "seconds for each search [3]")
        ->check(CLI::Range(0.01, 86400.0));
    command->add_option("--seed", a->options.solve.seed, "of the genetic search [1]");
    command->callback([&globals, a] { globals.status = run(globals, *a); });
}

}  // namespace arena::cli
