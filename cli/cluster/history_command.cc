// SPDX-License-Identifier: GPL-2.0-or-later
// `arena history`: what happened to a job, also when it is over. The scheduler plug-in answers on
// its socket: to the job's owner, root and SlurmUser.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "cli/cluster/ask_scheduler.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/job_id.h"
#include "core/cluster.h"

namespace arena::cli {
namespace {

struct Event {
    double time_s = 0;
    std::string state, text;
};

struct Past {
    std::vector<Event> events;
    bool over = false;
    std::int64_t left_out = 0, left_out_after = 0;
};

Result<Past> read_past(const Json& json) {
    Past past;
    std::optional<Error> error;
    const JsonFields fields(json, "", error);
    fields.boolean("over", past.over);
    fields.integer("left_out", past.left_out, 0, INT64_MAX);
    fields.integer("left_out_after", past.left_out_after, 0, INT64_MAX);
    const Json* list = fields.list("events", 1 << 16);
    for (std::size_t i = 0; list != nullptr && i < list->size() && !error; ++i) {
        const JsonFields told((*list)[i], "events", error);
        Event& event = past.events.emplace_back();
        told.number("time_s", event.time_s, 0, 1e12);
        told.text("state", event.state);
        told.text("text", event.text, 1024);
    }
    if (error) return bad_answer(*error);
    return past;
}

void print_past(JobId job, const Past& past) {
    Table table({{"time (UTC)", false, Wide::whole}, {"state", false, Wide::whole}, {"", false}});
    for (std::size_t i = 0; i < past.events.size(); ++i) {
        const Event& event = past.events[i];
        if (past.left_out > 0 && static_cast<std::int64_t>(i) == past.left_out_after)
            table.add({"...", "", fmt::format("{} more are not kept", past.left_out)});
        table.add({utc_time(event.time_s), event.state, event.text});
    }
    fmt::print("{}", table.text());
    if (past.over) fmt::print("\nHow it ended: sacct -j {} (where Slurm keeps accounts)\n", job);
}

int history(const Globals& globals, JobId job) {
    const Result<Json> json = ask_scheduler(globals, fmt::format("history {}", job));
    if (!json) return fail(globals, json.error());
    if (globals.json) return show_json(*json);
    const Result<Past> past = read_past(*json);
    if (!past) return fail(globals, past.error());
    print_past(job, *past);
    return exit_yes;
}

}  // namespace

void add_history(CLI::App& app, Globals& globals) {
    CLI::App* command =
        app.add_subcommand("history", "what happened to a job, also when it is over");
    const auto job = std::make_shared<JobId>(0);
    command->add_option("jobid", *job, "job id")->required()->transform(job_id());
    command->callback([&globals, job] { globals.status = history(globals, *job); });
}

}  // namespace arena::cli
