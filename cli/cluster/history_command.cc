// SPDX-License-Identifier: GPL-2.0-or-later
// `arena history`: what happened to a job, also when it is over, as text or as a page. The
// scheduler plug-in answers on its socket: to the job's owner, root and SlurmUser.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "cli/cluster/ask_scheduler.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/history_page.h"
#include "cli/cluster/job_id.h"
#include "core/cluster.h"

namespace arena::cli {
namespace {

Result<Past> read_past(const Json& json) {
    Past past;
    std::optional<Error> error;
    const JsonFields fields(json, "", error);
    fields.integer("job", past.job, 1, UINT32_MAX);
    fields.integer("uid", past.uid, 0, UINT32_MAX);
    fields.boolean("over", past.over);
    fields.integer("left_out", past.left_out, 0, INT64_MAX);
    fields.integer("left_out_after", past.left_out_after, 0, INT64_MAX);
    const Json* list = fields.list("events", 1 << 16);
    for (std::size_t i = 0; list != nullptr && i < list->size() && !error; ++i) {
        const JsonFields told((*list)[i], "events", error);
        PastEvent& event = past.events.emplace_back();
        told.number("time_s", event.time_s, 0, 1e12);
        told.text("state", event.state);
        told.text("text", event.text, 1024);
        if (told.has("iteration_s")) told.number("iteration_s", event.iteration_s, 0, 1e9);
        if (told.has("estimate_s")) told.number("estimate_s", event.estimate_s, 0, 1e9);
    }
    if (error) return bad_answer(*error);
    return past;
}

void print_past(const Past& past) {
    Table table({{"time (UTC)", false, Wide::whole}, {"state", false, Wide::whole}, {"", false}});
    for (std::size_t i = 0; i < past.events.size(); ++i) {
        const PastEvent& event = past.events[i];
        if (past.left_out > 0 && static_cast<std::int64_t>(i) == past.left_out_after)
            table.add({"...", "", fmt::format("{} more are not kept", past.left_out)});
        table.add({utc_time(event.time_s), event.state, event.text});
    }
    fmt::print("{}", table.text());
    if (past.over)
        fmt::print("\nHow it ended: sacct -j {} (where Slurm keeps accounts)\n", past.job);
}

struct HistoryOptions {
    JobId job = 0;
    std::string html;
};

int history(const Globals& globals, const HistoryOptions& given) {
    const Result<Json> json = ask_scheduler(globals, fmt::format("history {}", given.job));
    if (!json) return fail(globals, json.error());
    const Result<Past> past = read_past(*json);
    if (!past) return fail(globals, past.error());
    if (!given.html.empty()) {
        const std::string page = history_page(*past, static_cast<double>(std::time(nullptr)));
        if (const Status written = write_file_atomic(given.html, page); !written)
            return fail(globals, written.error());
    }
    if (globals.json) return show_json(*json);
    print_past(*past);
    return exit_yes;
}

}  // namespace

void add_history(CLI::App& app, Globals& globals) {
    CLI::App* command =
        app.add_subcommand("history", "what happened to a job, also when it is over");
    const auto given = std::make_shared<HistoryOptions>();
    command->add_option("jobid", given->job, "job id")->required()->transform(job_id());
    command->add_option("--html", given->html, "also write a page with its life to this file");
    command->callback([&globals, given] { globals.status = history(globals, *given); });
}

}  // namespace arena::cli
