// SPDX-License-Identifier: GPL-2.0-or-later
// `arena array list`: the jobs that train members of job arrays on one pipeline, and those members,
// as the scheduler plug-in knows them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/count_text.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cluster/ask_scheduler.h"
#include "cli/cluster/commands.h"
#include "cli/common/wrap.h"

namespace arena::cli {
namespace {

constexpr std::size_t most_carriers = 4096, most_members = 1 << 20;

struct ArrayMember {
    std::int64_t job = 0, array = 0, task = 0;
    bool runs = false;
    double gpu_s = 0;
};

struct ArrayJob {
    std::int64_t job = 0, gpus = 0, at_a_time = 0, since = 0;
    std::string state, end, plan;
    std::vector<std::string> nodes;
    double iteration_s = 0, bubble = 0;
    std::vector<ArrayMember> members;
};

ArrayMember read_member(const Json& json, std::optional<Error>& error) {
    const JsonFields told(json, "members", error);
    ArrayMember member;
    told.integer("job", member.job, 1, UINT32_MAX);
    told.integer("array", member.array, 0, UINT32_MAX);
    told.integer("task", member.task, 0, UINT32_MAX);
    told.boolean("runs", member.runs);
    told.number("gpu_s", member.gpu_s, 0, 1e18);
    return member;
}

ArrayJob read_job(const Json& json, std::optional<Error>& error) {
    const JsonFields told(json, "carriers", error);
    ArrayJob job;
    told.integer("job", job.job, 1, UINT32_MAX);
    told.integer("gpus", job.gpus, 0, UINT32_MAX);
    told.integer("at_a_time", job.at_a_time, 0, UINT32_MAX);
    told.integer("since", job.since, 0, latest_s);
    told.text("state", job.state);
    told.text("end", job.end);
    told.text("plan", job.plan, 1024);
    told.texts("nodes", job.nodes, most_nodes, 256);
    told.number("iteration_s", job.iteration_s, 0, 1e12);
    told.number("bubble", job.bubble, 0, 1);
    const Json* members = told.list("members", most_members);
    for (std::size_t i = 0; members != nullptr && i < members->size() && !error; ++i)
        job.members.push_back(read_member((*members)[i], error));
    return job;
}

void print_job(const ArrayJob& job) {
    const std::string end = job.end.empty() ? "" : " (" + printable(job.end) + ")";
    fmt::print("JobId={} {}{}: {} on {} of {}, {} at a time, {} an iteration of each\n", job.job,
               printable(job.state), end, printable(job.plan), counted(job.gpus, "GPU"),
               printable(join(job.nodes, ",")), counted(job.at_a_time, "member"),
               human_seconds(job.iteration_s));
    if (job.members.empty()) return;
    Table table({{"member", false, Wide::whole}, {"task", false}, {"now", false}, {"GPU-s", true}});
    for (const ArrayMember& member : job.members)
        table.add({std::to_string(member.job), fmt::format("{}_{}", member.array, member.task),
                   member.runs ? "runs" : "not here", fmt::format("{:.1f}", member.gpu_s)});
    fmt::print("{}", table.text());
}

int list_arrays(const Globals& globals) {
    const Result<Json> json = ask_scheduler(globals, "array list");
    if (!json) return fail(globals, json.error());
    if (globals.json) return show_json(*json);
    std::optional<Error> error;
    const JsonFields answer(*json, "", error);
    bool enabled = false;
    answer.boolean("enabled", enabled);
    std::vector<ArrayJob> jobs;
    const Json* carriers = answer.list("carriers", most_carriers);
    for (std::size_t i = 0; carriers != nullptr && i < carriers->size() && !error; ++i)
        jobs.push_back(read_job((*carriers)[i], error));
    if (error) return fail(globals, bad_answer(*error));
    if (!enabled) fmt::print("Nothing is bound anew: array.enabled of arena.yaml is false.\n");
    if (jobs.empty()) fmt::print("No pipeline trains members of an array.\n");
    for (const ArrayJob& job : jobs) print_job(job);
    return exit_yes;
}

}  // namespace

void add_array(CLI::App& app, Globals& globals) {
    CLI::App& group = *app.add_subcommand("array", "siblings that share one pipeline");
    group.require_subcommand(1);
    group.add_subcommand("list", "which jobs train members of job arrays, and what each has used")
        ->callback([&globals] { globals.status = list_arrays(globals); });
}

}  // namespace arena::cli
