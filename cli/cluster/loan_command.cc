// SPDX-License-Identifier: GPL-2.0-or-later
// `arena loan` offer, reclaim, list: inference nodes that are lent to training, by an
// administrator's or an inference scheduler's word; the scheduler plug-in answers on its socket.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/count_text.h"
#include "base/hostlist.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cluster/ask_scheduler.h"
#include "cli/cluster/commands.h"
#include "cli/common/moment.h"
#include "cli/common/wrap.h"

namespace arena::cli {
namespace {

constexpr std::size_t most_jobs = 1 << 20;
constexpr std::size_t longest_list = 4000;  ///< bytes, of a question to the scheduler
constexpr std::int64_t longest_deadline_s = 86400;

// ---- what the scheduler answers ----------------------------------------------------------------

struct Lease {
    std::string id, node, partition, state, why;
    std::int64_t since = 0, until = 0, deadline = 0;  ///< epoch seconds; 0 = none
    std::vector<std::int64_t> jobs;
};

/// With what every list of leases has; the others where they are said.
Lease read_lease(const Json& json, const std::string& where, std::optional<Error>& error) {
    const JsonFields told(json, where, error);
    Lease lease;
    told.text("id", lease.id);
    told.text("node", lease.node);
    if (told.has("partition")) told.text("partition", lease.partition);
    if (told.has("state")) told.text("state", lease.state);
    if (told.has("why")) told.text("why", lease.why, 1024);
    if (told.has("since")) told.integer("since", lease.since, 0, latest_s);
    if (told.has("until")) told.integer("until", lease.until, 0, latest_s);
    if (told.has("deadline")) told.integer("deadline", lease.deadline, 0, latest_s);
    if (told.has("jobs")) told.integers("jobs", lease.jobs, 1, UINT32_MAX, most_jobs);
    return lease;
}

std::vector<Lease> read_leases(const JsonFields& answer, const char* key,
                               std::optional<Error>& error) {
    std::vector<Lease> leases;
    const Json* list = answer.list(key, most_nodes);
    for (std::size_t i = 0; list != nullptr && i < list->size() && !error; ++i)
        leases.push_back(read_lease((*list)[i], fmt::format("{}[{}]", key, i), error));
    return leases;
}

std::string utc_or(std::int64_t time, const char* otherwise) {
    return time == 0 ? otherwise : utc_time(static_cast<double>(time));
}

Status check_nodes(const std::string& nodes) {
    if (const auto names = parse_hostlist(nodes, most_nodes); !names) return names.error();
    if (nodes.size() <= longest_list) return Done{};
    return usage_error(
        fmt::format("a list of nodes of {} characters: give at most {}, as n[1-200] or in parts",
                    nodes.size(), longest_list));
}

// ---- offer -------------------------------------------------------------------------------------

int offer(const Globals& globals, const std::string& nodes,
          const std::optional<std::string>& until) {
    if (const Status good = check_nodes(nodes); !good) return fail(globals, good.error());
    std::string line = "loan offer " + nodes;
    if (until) {
        const auto end = parse_moment(*until, std::time(nullptr));
        if (!end) return fail(globals, usage_error(end.error().text, "--until"));
        line += fmt::format(" until={}", *end);
    }
    const Result<Json> json = ask_scheduler(globals, line);
    if (!json) return fail(globals, json.error());
    if (globals.json) return show_json(*json);
    std::optional<Error> error;
    const std::vector<Lease> leases = read_leases(JsonFields(*json, "", error), "leases", error);
    if (error) return fail(globals, bad_answer(*error));
    for (const Lease& lease : leases)
        fmt::print("{}: lent to training by lease {}\n", lease.node, lease.id);
    if (leases.empty()) fmt::print("All of these nodes are lent already.\n");
    return exit_yes;
}

// ---- reclaim -----------------------------------------------------------------------------------

struct Reclaimed {
    std::vector<Lease> returning;
    std::vector<std::int64_t> preempted, scaled_in, ending;
    std::int64_t missing = 0;  ///< nodes that cannot be given back
    std::string why;           ///< they cannot
};

Result<Reclaimed> read_reclaimed(const Json& json) {
    std::optional<Error> error;
    const JsonFields answer(json, "", error);
    Reclaimed told;
    told.returning = read_leases(answer, "returning", error);
    answer.integers("preempted", told.preempted, 1, UINT32_MAX, most_jobs);
    answer.integers("scaled_in", told.scaled_in, 1, UINT32_MAX, most_jobs);
    answer.integers("ending", told.ending, 1, UINT32_MAX, most_jobs);
    answer.integer("short", told.missing, 0, most_nodes);
    if (answer.has("why")) answer.text("why", told.why, 1024);
    if (error) return bad_answer(*error);
    return told;
}

void print_jobs(const char* what, const std::vector<std::int64_t>& jobs) {
    if (jobs.empty()) return;
    std::vector<std::string> names;
    for (const std::int64_t job : jobs) names.push_back(fmt::format("JobId={}", job));
    print_wrapped(what, join(names, ", "));
}

void print_reclaimed(const Reclaimed& told) {
    for (const Lease& lease : told.returning)
        fmt::print("{}: comes back by {} UTC (lease {})\n", lease.node,
                   utc_or(lease.deadline, "its deadline"), lease.id);
    print_jobs("preempted: ", told.preempted);
    print_jobs("scaled in: ", told.scaled_in);
    print_jobs("let run, since they end in time: ", told.ending);
    if (told.preempted.empty() && !told.returning.empty()) fmt::print("No job is preempted.\n");
    if (told.missing == 0) return;
    print_wrapped(counted(told.missing, "node") + " short: ",
                  told.why.empty() ? "no more are lent" : printable(told.why, 1024));
}

/// Digits alone are a number of nodes.
Status check_wanted(const std::string& wanted) {
    if (wanted.find_first_not_of("0123456789") != std::string::npos || wanted.empty())
        return check_nodes(wanted);
    if (parse_integer(wanted, 1, most_nodes)) return Done{};
    return usage_error(
        fmt::format("\"{}\" is no number of nodes; give 1 to {}, or names as n1,n[4-6]",
                    printable(wanted), most_nodes));
}

Status check_deadline(const std::string& text) {
    if (text.find_first_not_of("0123456789") == std::string::npos &&
        parse_integer(text, 1, longest_deadline_s))
        return Done{};
    return usage_error(fmt::format("\"{}\" is no deadline; give whole seconds from 1 to {}",
                                   printable(text), longest_deadline_s),
                       "--deadline");
}

/// exit_no where nodes are short.
int reclaim(const Globals& globals, const std::string& wanted,
            const std::optional<std::string>& deadline) {
    if (const Status good = check_wanted(wanted); !good) return fail(globals, good.error());
    if (const Status good = deadline ? check_deadline(*deadline) : Status(Done{}); !good)
        return fail(globals, good.error());
    const Result<Json> json = ask_scheduler(
        globals, "loan reclaim " + wanted + (deadline ? " deadline=" + *deadline : ""));
    if (!json) return fail(globals, json.error());
    const auto told = read_reclaimed(*json);
    if (!told) return fail(globals, told.error());
    if (globals.json)
        show_json(*json);
    else
        print_reclaimed(*told);
    return told->missing == 0 ? exit_yes : exit_no;
}

// ---- list --------------------------------------------------------------------------------------

void print_leases(const std::vector<Lease>& leases) {
    Table table({{"lease", false, Wide::whole},
                 {"node", false, Wide::whole},
                 {"of", false},
                 {"state", false, Wide::whole},
                 {"since (UTC)", false, Wide::whole},
                 {"back by (UTC)", false, Wide::whole},
                 {"jobs", false},
                 {"why", false, Wide::below}});
    for (const Lease& lease : leases) {
        std::vector<std::string> jobs;
        for (const std::int64_t job : lease.jobs) jobs.push_back(std::to_string(job));
        const std::int64_t back = lease.deadline != 0 ? lease.deadline : lease.until;
        table.add({lease.id, lease.node, lease.partition, lease.state, utc_or(lease.since, "-"),
                   utc_or(back, "when asked for"), jobs.empty() ? "-" : join(jobs, ", "),
                   printable(lease.why, 1024)});
    }
    fmt::print("{}", table.text());
}

int list_loans(const Globals& globals) {
    const Result<Json> json = ask_scheduler(globals, "loan list");
    if (!json) return fail(globals, json.error());
    if (globals.json) return show_json(*json);
    std::optional<Error> error;
    const JsonFields answer(*json, "", error);
    bool enabled = false;
    std::string source, partition, problem;
    answer.boolean("enabled", enabled);
    answer.text("source", source);
    answer.text("partition", partition);
    if (answer.has("problem")) answer.text("problem", problem, 1024);
    const std::vector<Lease> leases = read_leases(answer, "leases", error);
    if (error) return fail(globals, bad_answer(*error));
    if (!enabled)
        fmt::print("Nothing is lent anew: loan.enabled of arena.yaml is false.\n");
    else
        fmt::print("Nodes are lent {}, to partition {}.\n",
                   source == "commands" ? "by arena loan offer" : "by inference's own demand",
                   printable(partition));
    if (!problem.empty()) print_wrapped("problem: ", printable(problem, 1024));
    if (leases.empty())
        fmt::print("No node is lent.\n");
    else
        print_leases(leases);
    return exit_yes;
}

}  // namespace

void add_loan(CLI::App& app, Globals& globals) {
    CLI::App& group = *app.add_subcommand("loan", "inference nodes that are lent to training");
    group.require_subcommand(1);
    group.add_subcommand("list", "which nodes are lent, and when they are back")
        ->callback([&globals] { globals.status = list_loans(globals); });

    CLI::App* lend = group.add_subcommand("offer", "lend nodes of an inference partition");
    const auto nodes = std::make_shared<std::string>(), until = std::make_shared<std::string>();
    lend->add_option("nodes", *nodes, "names, as n1,n[4-6]")->required();
    CLI::Option* ends =
        lend->add_option("--until", *until,
                         "when they go back by themselves: HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]] or "
                         "now+COUNT[seconds|minutes|hours|days|weeks] [when asked for]");
    lend->callback([&globals, nodes, until, ends] {
        globals.status = offer(globals, *nodes, *ends ? std::optional(*until) : std::nullopt);
    });

    CLI::App* back = group.add_subcommand("reclaim", "have lent nodes back");
    const auto wanted = std::make_shared<std::string>(), deadline = std::make_shared<std::string>();
    back->add_option("nodes", *wanted, "how many, or which: 2, or n1,n[4-6]")->required();
    CLI::Option* given =
        back->add_option("--deadline", *deadline, "seconds until they are back [loan.deadline_s]");
    back->callback([&globals, wanted, deadline, given] {
        globals.status =
            reclaim(globals, *wanted, *given ? std::optional(*deadline) : std::nullopt);
    });
}

}  // namespace arena::cli
