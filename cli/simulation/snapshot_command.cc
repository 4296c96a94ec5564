// SPDX-License-Identifier: GPL-2.0-or-later
// `arena snapshot save|replay`: takes all arguments of a decision out of a running controller, and
// repeats a decision from such a file, with the same policy or another.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/count_text.h"
#include "base/json.h"
#include "base/text.h"
#include "baselines/registry.h"
#include "cli/common/ask.h"
#include "cli/simulation/commands.h"
#include "policy/replay.h"

namespace arena::cli {
namespace {

constexpr std::size_t max_snapshot_bytes = std::size_t{64} << 20;

int save(const Globals& globals, const std::string& file) {
    const Result<Config> config = load_site_config(globals);
    if (!config) return fail(globals, config.error());
    const Result<std::string> text = ask_socket(config->socket, "snapshot");
    if (!text) return fail(globals, text.error());
    if (trim(*text).empty()) {
        return fail(globals, no_error("the plug-in gives snapshots to root and SlurmUser only"));
    }
    const Result<Replay> replay = parse_replay(*text);
    if (!replay) return fail(globals, environment_error(replay.error().message(), "snapshot"));
    if (file.empty() || file == "-") {
        fmt::print("{}\n", trim(*text));
        return exit_yes;
    }
    if (const Status status = write_file_atomic(file, *text); !status) {
        return fail(globals, status.error());
    }
    const std::size_t nodes = replay->snapshot.nodes.size(), jobs = replay->snapshot.jobs.size();
    if (globals.json) {
        fmt::print(
            "{}\n",
            dump_json({{"schema_version", 1}, {"file", file}, {"nodes", nodes}, {"jobs", jobs}}));
    } else {
        fmt::print("{}: {}, {}\n", file, counted(nodes, "node"), counted(jobs, "job"));
    }
    return exit_yes;
}

std::string node_names(const Snapshot& snapshot, const std::vector<NodeIndex>& nodes) {
    std::vector<std::string> names;
    for (const NodeIndex index : nodes) names.push_back(snapshot.nodes[index].name);
    return join(names, ",");
}

void print_decision(const Snapshot& snapshot, const Decision& decision) {
    for (const Action& action : decision.actions) {
        fmt::print("JobId={} {}", action.job, to_string(action.kind));
        if (action.kind == ActionKind::profile) {
            fmt::print(" on {}", action.gpu_type);
        } else {
            fmt::print(" {} {} est={:.3g}s", short_form(action.offer.grid),
                       short_form(action.offer.plan), action.offer.estimate.iteration_s);
        }
        if (!action.nodes.empty()) fmt::print(" on {}", node_names(snapshot, action.nodes));
        fmt::print(": {}\n", action.reason);
    }
    for (const auto& [job, reason] : decision.waiting)
        fmt::print("JobId={} waits: {}\n", job, reason);
    if (decision == Decision{}) fmt::print("nothing to do\n");
}

int replay(const Globals& globals, const std::string& file, const std::string& policy_name) {
    const Result<std::string> text = read_user_file(file, max_snapshot_bytes);
    if (!text) return fail(globals, text.error());
    const Result<Replay> arguments = parse_replay(*text);
    if (!arguments) return fail(globals, usage_error(arguments.error().message(), file));
    std::string name = policy_name.empty() ? arguments->policy : policy_name;
    if (name.empty()) name = policies().front().name;
    const Policy* policy = find_policy(name);
    if (policy == nullptr) {
        std::vector<std::string> names;
        for (const Policy& known : policies()) names.emplace_back(known.name);
        return fail(globals, usage_error(fmt::format("--policy: \"{}\" is not one of {}",
                                                     printable(name), join(names, ", "))));
    }
    const Decision decision =
        policy->decide(arguments->snapshot, arguments->offers, arguments->options);
    if (globals.json) {
        fmt::print("{}\n", to_json(decision));
    } else {
        print_decision(arguments->snapshot, decision);
    }
    return exit_yes;
}

}  // namespace

void add_snapshot(CLI::App& app, Globals& globals) {
    CLI::App* snapshot = app.add_subcommand("snapshot", snapshot_about);
    snapshot->require_subcommand(1);
    CLI::App* saving = snapshot->add_subcommand("save", "write what the scheduler sees now");
    auto target = std::make_shared<std::string>();
    saving->add_option("file", *target, "file to write [standard output]");
    saving->callback([&globals, target] { globals.status = save(globals, *target); });
    CLI::App* replaying = snapshot->add_subcommand("replay", "decide again from a saved snapshot");
    auto source = std::make_shared<std::string>();
    auto policy = std::make_shared<std::string>();
    replaying->add_option("file", *source, "saved snapshot")->required();
    replaying->add_option("--policy", *policy, "policy to decide with [the one that decided then]");
    replaying->callback(
        [&globals, source, policy] { globals.status = replay(globals, *source, *policy); });
}

}  // namespace arena::cli
