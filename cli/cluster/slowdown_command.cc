// SPDX-License-Identifier: GPL-2.0-or-later
// `arena slowdown` list, show, clear, check: what watched jobs have said of slow GPUs and links,
// and an administrator's word about a node; the scheduler plug-in answers on its socket. `arena
// slowdown report` is how a job says it, and with --from-health how a node does (health_report.h).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "cli/cluster/ask_scheduler.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/health_report.h"
#include "cli/cluster/job_id.h"
#include "cli/cluster/send_report.h"
#include "reports/slow_report.h"

namespace arena::cli {
namespace {

// ---- what the scheduler answers ----------------------------------------------------------------

struct SlowEvent {
    std::int64_t job = 0, onset = 0, relief = 0;
    std::string at, peer, cause, action;
    double factor = 0, lost_s = 0, confidence = 1;
    bool cleared = false;
};

Result<std::vector<SlowEvent>> read_events(const Json& json) {
    std::vector<SlowEvent> events;
    std::optional<Error> error;
    const JsonFields fields(json, "", error);
    const Json* list = fields.list("events", 1 << 20);
    for (std::size_t i = 0; list != nullptr && i < list->size() && !error; ++i) {
        const JsonFields told((*list)[i], "events", error);
        SlowEvent& event = events.emplace_back();
        told.integer("job", event.job, 1, UINT32_MAX);
        told.integer("onset", event.onset, 0, INT64_MAX);
        if (told.has("relief")) told.integer("relief", event.relief, 0, INT64_MAX);
        told.text("at", event.at);
        told.text("peer", event.peer);
        told.text("cause", event.cause);
        told.text("action", event.action);
        told.number("factor", event.factor, 1, 1e6);
        if (told.has("confidence")) told.number("confidence", event.confidence, 0, 1);
        told.number("lost_s", event.lost_s, 0, 1e12);
        told.boolean("cleared", event.cleared);
    }
    if (error) return bad_answer(*error);
    return events;
}

std::string state_of(const SlowEvent& event) {
    if (event.cleared) return "cleared";
    return event.relief != 0 ? "over" : "goes on";
}

/// Of what is slow nobody knows where: all of them wait for each other.
std::string place_of(const SlowEvent& event) {
    if (event.at.empty()) return "not known";
    return event.peer.empty() ? event.at : event.at + "+" + event.peer;
}

std::string slower_of(const SlowEvent& event) {
    return fmt::format(
        "x{:.1f}{}", event.factor,
        event.confidence < 1 ? fmt::format(" suspected {:.2f}", event.confidence) : std::string());
}

/// Other frameworks than arena-train obey no words, and nothing is measured while they run.
void print_unexplained(const std::vector<SlowEvent>& events) {
    for (const SlowEvent& event : events)
        if (event.at.empty())
            fmt::print(
                "JobId={}: its steps {} {:.2f} times as long as before, which has cost {} so "
                "far; which GPU or link is slow is not known, for its trainer takes no checks, and "
                "who waits for whom does not tell: arena-watch(1)\n",
                event.job, event.relief != 0 ? "took" : "take", event.factor,
                human_seconds(event.lost_s));
}

void print_events(const std::vector<SlowEvent>& events) {
    Table table({{"job", true},
                 {"at", false, Wide::whole},
                 {"cause", false},
                 {"slower", true},
                 {"since (UTC)", false, Wide::whole},
                 {"action", false},
                 {"lost", true},
                 {"state", false}});
    for (const SlowEvent& event : events)
        table.add({std::to_string(event.job), place_of(event), event.cause, slower_of(event),
                   utc_time(static_cast<double>(event.onset)), event.action,
                   human_seconds(event.lost_s), state_of(event)});
    fmt::print("{}", table.text());
    print_unexplained(events);
}

/// "until 2026-01-31 12:00:00 UTC; then a check is due"
std::string end_of(const Json& fact, const std::string& node) {
    const Json until = fact.value("until", Json());
    const bool is_link = fact.value("cause", "") == "communication";
    return fmt::format(
        "{}{}",
        until.is_number() ? "until " + utc_time(until.get<double>()) + " UTC" : "without an end",
        is_link || until.is_null() ? "; arena slowdown clear " + node + " ends it"
                                   : "; then a check is due");
}

std::string doubt_of(const Json& fact) {
    return fact.value("peer", "").empty() ? " (not confirmed by other users' jobs or a check)"
                                          : " (either end may be slow; a third node will tell)";
}

/// Two lines: what, and how long. Of what the node's own tools find one.
void print_fact(const Json& fact, const std::string& node) {
    if (const std::string severity = fact.value("severity", ""); !severity.empty()) {
        const auto since = fact.value("since", std::int64_t{0});
        fmt::print("{}: {} ({} by its own tools{})\n", node,
                   printable(fact.value("slow", "?"), 200), printable(severity),
                   since == 0 ? "" : ", since " + utc_time(static_cast<double>(since)) + " UTC");
        return;
    }
    fmt::print("{}: {}{}\n", node, printable(fact.value("slow", "?"), 200),
               fact.value("confirmed", false) ? "" : doubt_of(fact));
    fmt::print("{}: which holds {}\n", node, end_of(fact, node));
}

/// What is held against nodes, and of those that are or were checked.
void print_nodes(const Json& json) {
    for (const Json& node : json.value("nodes", Json::array())) {
        if (!node.is_object()) continue;
        const std::string name = printable(node.value("node", "?"));
        for (const Json& fact : node.value("facts", Json::array()))
            if (fact.is_object()) print_fact(fact, name);
        if (node.contains("carrier"))
            fmt::print("{}: is checked now (JobId={})\n", name, node.value("carrier", 0U));
        if (const std::string found = node.value("found", ""); !found.empty())
            fmt::print("{}: checked {} UTC: {}\n", name, utc_time(node.value("checked_s", 0.0)),
                       printable(found, 300));
        if (const std::string waits = node.value("waits", ""); !waits.empty())
            fmt::print("{}: its check waits: {}\n", name, printable(waits, 300));
    }
}

int list_events(const Globals& globals) {
    const Result<Json> json = ask_scheduler(globals, "slowdown list");
    if (!json) return fail(globals, json.error());
    if (globals.json) return show_json(*json);
    const auto events = read_events(*json);
    if (!events) return fail(globals, events.error());
    if (events->empty())
        fmt::print("No watched job says that a GPU or a link is slow.\n");
    else
        print_events(*events);
    print_nodes(*json);
    for (const Json& node : json->value("checks", Json::array()))
        fmt::print("{}: a check is asked for\n", node.is_string() ? node.get<std::string>() : "?");
    return exit_yes;
}

int show(const Globals& globals, JobId job) {
    const Result<Json> json = ask_scheduler(globals, fmt::format("slowdown show {}", job));
    if (!json) return fail(globals, json.error());
    if (globals.json) return show_json(*json);
    const auto events = read_events(*json);
    if (!events) return fail(globals, events.error());
    const std::string mode = json->value("mode", "off");
    fmt::print("JobId={} {}{}\n", job, mode == "off" ? "is not watched" : "is watched: " + mode,
               events->empty() ? "; nothing slow was found" : "");
    if (!events->empty()) print_events(*events);
    return exit_yes;
}

int tell_of_node(const Globals& globals, const std::string& verb, const std::string& node) {
    const auto place = parse_slow_place(node, "node");
    if (!place || place->gpu != any_gpu)
        return fail(globals,
                    usage_error(fmt::format("\"{}\" is no name of a node", printable(node))));
    const Result<Json> json = ask_scheduler(globals, fmt::format("slowdown {} {}", verb, node));
    if (!json) return fail(globals, json.error());
    if (globals.json) return show_json(*json);
    fmt::print("{}: {}\n", node,
               verb == "clear" ? "taken for healthy again" : "a check is asked for");
    return exit_yes;
}

// ---- what a job says ---------------------------------------------------------------------------

struct SlowReportOptions {
    JobId job = 0;
    std::int64_t life = -1;  ///< -1 = SLURM_RESTART_COUNT
    std::string at, peer, cause, action = "none";
    SlowReport report;
    double wait_s = 0;
    HealthOptions health;
};

Status read_place(const std::string& text, std::string_view key, SlowPlace& place) {
    if (text.empty()) return Done{};
    const auto parsed = parse_slow_place(text, key);
    if (!parsed) return parsed.error();
    place = *parsed;
    return Done{};
}

template <typename Word, typename Names>
Status read_word(const std::string& text, std::optional<Word> (*parse)(std::string_view),
                 const Names& names, const char* option, Word& word) {
    const auto parsed = parse(text);
    if (!parsed)
        return usage_error(
            fmt::format("'{}' is not one of {}", printable(text, 40), fmt::join(names, ", ")),
            option);
    word = *parsed;
    return Done{};
}

Result<SlowReport> read_report(const SlowReportOptions& options) {
    SlowReport report = options.report;
    for (const auto& [missing, option] : {std::pair(report.onset == 0, "--onset"),
                                          {options.cause.empty(), "--cause"},
                                          {report.factor == 0, "--factor"}})
        if (missing) return usage_error("is required without --from-health", option);
    const std::string restarts = environment("SLURM_RESTART_COUNT");
    const auto life = options.life >= 0
                          ? std::optional(options.life)
                          : parse_integer(restarts.empty() ? "0" : restarts, 0, UINT32_MAX);
    if (!life) return usage_error("is no number of restarts", "SLURM_RESTART_COUNT");
    report.life = static_cast<std::uint32_t>(*life);
    for (const Status& read :
         {read_place(options.at, "at", report.at), read_place(options.peer, "peer", report.peer),
          read_word(options.cause, parse_slow_cause, slowdown::causes, "--cause", report.cause),
          read_word(options.action, parse_slow_action, slow_actions, "--action", report.action),
          check_slow_report(report)})
        if (!read) return read.error();
    return report;
}

/// Again until it is answered for good, or the time is over.
Status deliver(JobId job, const std::string& text, double wait_s) {
    using Clock = std::chrono::steady_clock;
    constexpr auto pause = std::chrono::seconds(2);
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(wait_s));
    for (;;) {
        Status sent = send_report(job, text);
        const bool final = sent || sent.error().code == ErrorCode::usage;
        if (final || Clock::now() + pause > end) return sent;
        std::this_thread::sleep_for(pause);
    }
}

int report(const Globals& globals, const SlowReportOptions& options) {
    if (!options.health.files.empty()) return report_health(globals, options.health);
    const auto job = reporting_job(options.job);
    if (!job) return fail(globals, job.error());
    const auto report = read_report(options);
    if (!report) return fail(globals, report.error());
    if (auto sent = deliver(*job, format_slow_report(*report), options.wait_s); !sent)
        return fail(globals, sent.error());
    if (globals.json)
        return show_json({{"schema_version", 1}, {"job", *job}, {"reported", slow_word(*report)}});
    fmt::print("JobId={} {}; reported\n", *job, slow_word(*report));
    return exit_yes;
}

void add_health_to(CLI::App& command, HealthOptions& health) {
    CLI::Option* files =
        command
            .add_option("--from-health", health.files,
                        "of a node, for HealthCheckProgram: files with what nvidia-smi, dcgmi, the "
                        "kernel's log, perfquery or ibqueryerrors say; - = standard input")
            ->expected(1, 64);
    command.add_option("--node", health.node, "its name [SLURMD_NODENAME, else this host's name]")
        ->needs(files);
    command
        .add_flag("--dry-run", health.dry_run,
                  "says what it finds and sends nothing; ends with 1 where the node is unfit")
        ->needs(files);
    for (const char* other : {"--onset", "--at", "--cause", "--factor"})
        files->excludes(command.get_option(other));
}

void add_report_to(CLI::App& group, Globals& globals) {
    CLI::App* command =
        group.add_subcommand("report",
                             "a running job says that a GPU or a link is slow; or a node "
                             "what its own tools find (--from-health)");
    const auto o = std::make_shared<SlowReportOptions>();
    SlowReport& told = o->report;
    command->add_option("--onset", told.onset, "epoch seconds of the first slow step");
    command->add_option(
        "--at", o->at,
        "NODE/GPU, or NODE: of a link, or where the number is not known; none where "
        "the cause is unknown");
    command->add_option("--peer", o->peer, "the other end of a link, NODE or NODE/GPU");
    command->add_option("--cause", o->cause, "compute, communication or unknown");
    command->add_option("--factor", told.factor, "how many times slower than healthy");
    command->add_option("--confidence", told.confidence,
                        "of a suspicion, that no check has measured: above 0, at most 1 [1]");
    command->add_option("--action", o->action, "what the job does: none, S2, S3; or asks for: S4")
        ->capture_default_str();
    command->add_option("--lost-s", told.lost_s, "seconds that the job has lost so far")
        ->capture_default_str();
    command->add_option("--steps", told.steps,
                        "steps of the job that were watched so far; without any nothing is taken "
                        "of a user");
    command->add_option("--relief", told.relief, "epoch seconds since when it is over");
    command->add_option("--job", o->job, "job id [SLURM_JOB_ID]")->transform(job_id());
    command->add_option("--life", o->life, "restarts of the job so far [SLURM_RESTART_COUNT]")
        ->check(CLI::Range(0U, UINT32_MAX));
    command->add_option("--wait", o->wait_s, "seconds to try again while slurmctld is away [0]")
        ->check(CLI::Range(0.0, 86400.0));
    add_health_to(*command, o->health);
    command->callback([&globals, o] { globals.status = report(globals, *o); });
}

void add_word_to(CLI::App& group, Globals& globals, const char* verb, const char* what) {
    CLI::App* command = group.add_subcommand(verb, what);
    const auto node = std::make_shared<std::string>();
    command->add_option("node", *node, "name of the node")->required();
    command->callback([&globals, verb = std::string(verb), node] {
        globals.status = tell_of_node(globals, verb, *node);
    });
}

void add_show_to(CLI::App& group, Globals& globals) {
    CLI::App* command = group.add_subcommand("show", "what one job says");
    const auto job = std::make_shared<JobId>();
    command->add_option("jobid", *job, "job id")->transform(job_id())->required();
    command->callback([&globals, job] { globals.status = show(globals, *job); });
}

}  // namespace

void add_slowdown(CLI::App& app, Globals& globals) {
    CLI::App& group = *app.add_subcommand("slowdown", "slow GPUs and links, and what is done");
    group.require_subcommand(1);
    group.add_subcommand("list", "what watched jobs say")->callback([&globals] {
        globals.status = list_events(globals);
    });
    add_show_to(group, globals);
    add_word_to(group, globals, "clear", "take a node for healthy again (root, SlurmUser)");
    add_word_to(group, globals, "check", "have a node checked (root, SlurmUser)");
    add_report_to(group, globals);
    group.add_subcommand("signs", "what --from-health knows, what it means, and by which source")
        ->callback([&globals] { globals.status = show_signs(globals); });
}

}  // namespace arena::cli
