// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab array compare`: what an array takes by several ways of scheduling it, and what the
// devices do meanwhile; without a file, what it gains over pipelines of today in the planner's
// model.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "array/list_rule.h"
#include "base/count_text.h"
#include "tests/lab/array/array_files.h"
#include "tests/lab/array/baselines.h"
#include "tests/lab/array/commands.h"
#include "tests/lab/array/compare_models.h"

namespace arena::cli {
namespace {

using array::Rules;
using array::Schedule;
using array::Solver;

struct Arguments {
    std::string file;
    ArrayOptions options;
    ModelComparison models;
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
    fmt::print("{}: {}, {} on {}\n", name_or(instance, "instance"),
               counted(instance.jobs, "member"), counted(instance.stages, "stage"),
               counted(instance.devices, "device"));
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

int compare_file(const Globals& globals, const Arguments& arguments) {
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

/// What is said of models is not obeyed for a file.
void add_model_options(CLI::App& command, CLI::Option* file, ModelComparison& o) {
    const auto one = [&](CLI::Option* option) { option->excludes(file); };
    one(command.add_option("--model", o.models,
                           "may be repeated [vgg-19, resnet-152, bert-large, gpt2-xl]"));
    one(command
            .add_option("--batch", o.batches,
                        "of each member; may be repeated [128, 256, 512, 768 images; 8, 16, 24, "
                        "32 sequences]")
            ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20)));
    one(command.add_option("--gpu-type", o.gpu_type, "hardware entry [A100-SXM-80GB]"));
    one(command.add_option("--stages", o.stages, "devices of the pipeline [8]")
            ->check(CLI::Range(2, 64)));
    one(command.add_option("--members", o.members, "of the array [64]")->check(CLI::Range(2, 256)));
    one(command.add_option("--servers", o.servers, "over which the stages are spread")
            ->check(CLI::Range(1, 64)));
    one(command.add_option("--memory", o.memory_gib, "GiB of a device [the type's]")
            ->check(CLI::Range(1.0, 1024.0)));
    one(command
            .add_option("--bandwidth", o.link_gb_per_s,
                        "GB/s between devices of a server [the type's]")
            ->check(CLI::Range(0.1, 1e5)));
    one(command
            .add_option("--host-bandwidth", o.host_gb_per_s,
                        "GB/s between a device and its host, each way [64]")
            ->check(CLI::Range(0.1, 1e5)));
    one(command.add_option("--seq-length", o.seq_length, "tokens of a sequence [the model's]")
            ->check(CLI::Range(1, 1 << 20)));
    one(command.add_option("--hardware", o.hardware, "more hardware entries (YAML)"));
    one(command.add_option("--profiles", o.profiles,
                           "profile JSON, a profile store (.db), or none [none]"));
    one(command
            .add_option("--axis", o.axis,
                        "what differs: servers (1, 2, 4, 8), stages (4, 8, 16), memory (40, 80 "
                        "GiB), bandwidth (32, 300 GB/s)")
            ->check(CLI::IsMember({"servers", "stages", "memory", "bandwidth"})));
}

}  // namespace

void add_array_compare(CLI::App& group, Globals& globals) {
    CLI::App* command = group.add_subcommand(
        "compare", "what several ways to schedule an array take; without FILE, of models");
    const auto a = std::make_shared<Arguments>();
    CLI::Option* file = command->add_option("file", a->file, "instances as JSON (arena-array(5))");
    command->add_option("--convention", a->options.convention, "physical | literal [physical]")
        ->check(CLI::IsMember({"physical", "literal"}))
        ->needs(file);
    CLI::Option* limit =
        command
            ->add_option("--limit", a->options.solve.seconds,
                         "seconds for each search [3; of models the list rule, without search]")
            ->check(CLI::Range(0.01, 86400.0));
    command->add_option("--seed", a->options.solve.seed, "of the genetic search [1]")->needs(file);
    add_model_options(*command, file, a->models);
    command->callback([&globals, a, limit] {
        if (limit->count() > 0) a->models.search_s = a->options.solve.seconds;
        globals.status =
            a->file.empty() ? compare_models(globals, a->models) : compare_file(globals, *a);
    });
}

}  // namespace arena::cli
