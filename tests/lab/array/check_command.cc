// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab array check`: whether schedules hold, those in the file or those of another one. Also
// where the group `array` is made.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/user_file.h"
#include "tests/lab/array/array_files.h"
#include "tests/lab/array/commands.h"
#include "tests/lab/array/schedule_check.h"

namespace arena::cli {
namespace {

struct Arguments {
    std::string file, schedule;
};

struct Checked {
    std::string name, convention;
    Result<array::Ticks> makespan;
};

Checked check(const array::ArrayCase& one, const array::KnownSchedule& schedule) {
    const array::Instance instance = array::under(one.instance, schedule.convention);
    Checked checked{instance.name,
                    schedule.convention == array::Convention::literal ? "literal" : "physical",
                    array::Ticks{0}};
    const auto starts = array::starts_of(instance, schedule.blocks);
    if (starts)
        checked.makespan = array::check_schedule(instance, schedule.rules, *starts);
    else
        checked.makespan = starts.error();
    return checked;
}

/// Puts schedules of another file to the instances of their names; one without a name to the only
/// instance.
Status add_schedules(std::vector<array::ArrayCase>& cases, const std::string& path) {
    const auto text = read_user_file(path, JsonLimits{}.bytes);
    if (!text) return text.error();
    auto schedules = array::parse_array_schedule(*text, path);
    if (!schedules) return schedules.error();
    for (auto& one : cases) one.schedules.clear();
    for (auto& named : *schedules) {
        bool found = false;
        for (auto& one : cases) {
            const bool is_only = named.name.empty() && cases.size() == 1;
            if (!is_only && one.instance.name != named.name) continue;
            one.schedules.push_back(named.schedule);
            found = true;
        }
        if (!found)
            return usage_error(
                fmt::format("there is no instance '{}' for its schedule", named.name), path);
    }
    return Done{};
}

int print(const Globals& globals, const std::vector<Checked>& all) {
    Json list = Json::array();
    bool holds = true;
    for (const auto& [name, convention, makespan] : all) {
        holds = holds && makespan.ok();
        list.push_back({{"name", name},
                        {"convention", convention},
                        {"holds", makespan.ok()},
                        {"makespan", makespan ? Json(*makespan) : Json()},
                        {"why", makespan ? "" : makespan.error().text}});
        if (globals.json) continue;
        if (makespan)
            fmt::print("{} ({}): holds, T = {}\n", name, convention, *makespan);
        else
            fmt::print("{} ({}): does not hold: {}\n", name, convention, makespan.error().text);
    }
    if (globals.json)
        fmt::print(
            "{}\n",
            dump_json({{"schema_version", 1}, {"kind", "array-check"}, {"schedules", list}}));
    return holds ? exit_yes : exit_no;
}

int run(const Globals& globals, const Arguments& arguments) {
    auto cases = read_array_file(arguments.file);
    if (!cases) return fail(globals, cases.error());
    if (!arguments.schedule.empty())
        if (const auto added = add_schedules(*cases, arguments.schedule); !added)
            return fail(globals, added.error());
    std::vector<Checked> all;
    for (const auto& one : *cases)
        for (const auto& schedule : one.schedules) all.push_back(check(one, schedule));
    if (all.empty())
        return fail(globals,
                    usage_error("there is no schedule in it; name a file with one by --schedule",
                                arguments.file));
    return print(globals, all);
}

}  // namespace

void add_array_check(CLI::App& group, Globals& globals) {
    CLI::App* command = group.add_subcommand("check", "whether schedules hold");
    const auto a = std::make_shared<Arguments>();
    command->add_option("file", a->file, "instances as JSON (arena-array(5))")->required();
    command->add_option("--schedule", a->schedule,
                        "what arena-lab --json array solve wrote [those in FILE]");
    command->callback([&globals, a] { globals.status = run(globals, *a); });
}

void add_lab_array(CLI::App& app, Globals& globals) {
    CLI::App& group = *app.add_subcommand("array", "siblings that share one pipeline");
    group.require_subcommand(1);
    add_array_solve(group, globals);
    add_array_check(group, globals);
    add_array_compare(group, globals);
}

}  // namespace arena::cli
