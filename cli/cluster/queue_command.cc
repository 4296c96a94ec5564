// SPDX-License-Identifier: GPL-2.0-or-later
// `arena queue`: place, who is ahead, and when each waiting job is expected to start with what. The
// scheduler plug-in answers on its socket; a user reads of own jobs all, of others' their places.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/job_id.h"
#include "cli/common/ask.h"
#include "core/cluster.h"

namespace arena::cli {
namespace {

constexpr std::size_t max_jobs = 1 << 20;

struct Line {
    std::int64_t place = 0;  ///< 0: it stands in no line
    std::int64_t job = 0;    ///< 0: somebody else's
    std::int64_t behind = 0;
    std::string state, reason, grid, plan, span;
    bool ordinary_ahead = false;
    double start_s = 0;    ///< 0: nobody knows
    double ends_by_s = 0;  ///< promised; 0: nothing is
};

Line read_line(const Json& json, std::optional<Error>& error) {
    const JsonFields fields(json, "jobs", error);
    Line line;
    if (fields.has("place")) fields.integer("place", line.place, 1, INT64_MAX);
    if (fields.has("job")) fields.integer("job", line.job, 1, UINT32_MAX);
    if (fields.has("behind")) fields.integer("behind", line.behind, 1, UINT32_MAX);
    if (fields.has("state")) fields.text("state", line.state);
    if (fields.has("reason")) fields.text("reason", line.reason, 1024);
    if (fields.has("ordinary_ahead")) fields.boolean("ordinary_ahead", line.ordinary_ahead);
    if (fields.has("ends_by_s")) fields.number("ends_by_s", line.ends_by_s, 0, 1e12);
    if (!fields.has("expected_start_s")) return line;
    fields.number("expected_start_s", line.start_s, 0, 1e12);
    fields.text("expected_grid", line.grid);
    fields.text("expected_plan", line.plan, 1024);
    if (fields.has("expected_span")) fields.text("expected_span", line.span);
    return line;
}

Result<std::vector<Line>> parse_queue(const Json& json) {
    std::vector<Line> lines;
    std::optional<Error> error;
    const JsonFields fields(json, "", error);
    std::int64_t version = 0;
    fields.integer("schema_version", version, 1, 1);
    if (const Json* jobs = fields.list("jobs", max_jobs))
        for (const Json& job : *jobs)
            if (!error) lines.push_back(read_line(job, error));
    if (error) return environment_error(error->message(), "answer of the scheduler plug-in");
    return lines;
}

std::string expected(const Line& line, double now_s) {
    if (line.start_s == 0) return line.ordinary_ahead ? "behind an ordinary job" : "-";
    return line.start_s <= now_s ? "now" : "~ " + utc_time(line.start_s);
}

/// To the minute, and the day where it is another.
std::string promised(const Line& line, double now_s) {
    if (line.ends_by_s == 0) return "";
    const std::string by = utc_time(60 * std::ceil(line.ends_by_s / 60)).substr(0, 16);
    return "by " + (by.starts_with(utc_time(now_s).substr(0, 10)) ? by.substr(11) : by);
}

std::vector<std::string> row(const Line& line, double now_s) {
    const auto number = [](std::int64_t n) {
        return n == 0 ? std::string("-") : std::to_string(n);
    };
    const bool others = line.state.empty();
    return {number(line.place),
            line.job == 0 ? "another's" : std::to_string(line.job),
            others ? "" : number(line.behind),
            others ? "" : expected(line, now_s),
            promised(line, now_s),
            line.grid.empty()
                ? ""
                : line.grid + " " + line.plan + (line.span.empty() ? "" : " " + line.span),
            line.reason};
}

void print_queue(const std::vector<Line>& lines, double now_s) {
    if (lines.empty()) return fmt::print("No job waits.\n");
    Table table({{"place", true},
                 {"job", true},
                 {"behind", true},
                 {"expected start (UTC)", false, Wide::whole},
                 {"ends", false, Wide::whole},
                 {"expected with", false, Wide::below},
                 {"reason", false}});
    for (const Line& line : lines) table.add(row(line, now_s));
    fmt::print("{}", table.text());
    fmt::print(
        "\nPlaces are by Slurm's priority, among jobs that may use the same nodes. Starts are "
        "estimates:\nif jobs do the work that is believed and nobody else comes. Ends are "
        "promised: "
        "\"by\" is the latest.\n");
}

int queue(const Globals& globals, const std::vector<JobId>& wanted) {
    const Result<Config> config = load_site_config(globals);
    if (!config) return fail(globals, config.error());
    const Result<std::string> answer = ask_socket(config->socket, "queue");
    if (!answer) {
        Error error = answer.error();
        error.text += "; run arena queue on the controller, or squeue --start anywhere";
        return fail(globals, error);
    }
    Result<Json> json = parse_json(*answer);
    if (!json || !json->is_object()) {
        return fail(globals, environment_error("the scheduler plug-in gave no answer: it is off or "
                                               "still starting; see slurmctld's log",
                                               config->socket));
    }
    Result<std::vector<Line>> lines = parse_queue(*json);
    if (!lines) return fail(globals, lines.error());
    const auto left_out = [&](std::int64_t job) {
        return !wanted.empty() &&
               std::find(wanted.begin(), wanted.end(), static_cast<JobId>(job)) == wanted.end();
    };
    if (globals.json) {
        Json kept = Json::array();
        for (const Json& job : (*json)["jobs"])
            if (!left_out(job.value("job", 0))) kept.push_back(job);
        (*json)["jobs"] = std::move(kept);
        fmt::print("{}\n", dump_json(*json));
    } else {
        std::erase_if(*lines, [&](const Line& line) { return left_out(line.job); });
        print_queue(*lines, json->value("time_s", 0.0));
    }
    return exit_yes;
}

}  // namespace

void add_queue(CLI::App& app, Globals& globals) {
    CLI::App* command =
        app.add_subcommand("queue", "places of waiting jobs, and when they are expected to start");
    auto jobs = std::make_shared<std::vector<JobId>>();
    command->add_option("jobid", *jobs, "only these jobs")->transform(job_id());
    command->callback([&globals, jobs] { globals.status = queue(globals, *jobs); });
}

}  // namespace arena::cli
