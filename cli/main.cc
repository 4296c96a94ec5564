// SPDX-License-Identifier: GPL-2.0-or-later
// `arena`: the command. It composes the libraries; each sub-command is a file of its own. Exit
// codes: 0 yes, 1 no, 2 usage, 3 environment.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/user_file.h"
#include "cli/array/commands.h"
#include "cli/cluster/commands.h"
#include "cli/doctor/commands.h"
#include "cli/exporter/commands.h"
#include "cli/loan/commands.h"
#include "cli/planning/commands.h"
#include "cli/simulation/commands.h"
#include "cli/slowdown/commands.h"

using namespace arena::cli;

namespace {

/// The command that the words before the mistake name.
const CLI::App* innermost(const CLI::App* app) {
    while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
    return app;
}

std::string full_name(const CLI::App* app) {
    return app->get_parent() == nullptr ? app->get_name()
                                        : full_name(app->get_parent()) + " " + app->get_name();
}

std::string with_nearest(const std::string& word, const std::vector<std::string>& known) {
    const std::string near = arena::nearest(word, {known.begin(), known.end()});
    return near.empty() ? "" : fmt::format(", did you mean {}?", near);
}

std::vector<std::string> options_of(const CLI::App* command) {
    std::vector<std::string> names;
    for (; command != nullptr; command = command->get_parent())
        for (const CLI::Option* option : command->get_options())
            for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    return names;
}

/// A word that no command expects, or that there is none.
std::string unexpected(const CLI::App* app, const std::string& otherwise) {
    const CLI::App* command = innermost(app);
    const std::string name = full_name(command);
    std::vector<std::string> commands, extra = app->remaining(true);
    for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; }))
        commands.push_back(sub->get_name());
    if (extra.empty() && !commands.empty())
        return fmt::format("a command is needed: {} {}", name, fmt::join(commands, " | "));
    if (extra.empty()) return otherwise;
    const std::string word = arena::printable(extra.front(), 60);
    if (word.starts_with('-'))
        return fmt::format("{} has no option {}{}", name, word,
                           with_nearest(word, options_of(command)));
    if (commands.empty()) return fmt::format("{}: '{}' is one word too many", name, word);
    return fmt::format("{} has no command '{}'{}; there are {}", name, word,
                       with_nearest(word, commands), fmt::join(commands, ", "));
}

/// One sentence, and where more is said.
std::string usage_sentence(const CLI::App* app, const CLI::Error& error) {
    const auto code = static_cast<CLI::ExitCodes>(error.get_exit_code());
    const bool is_word =
        code == CLI::ExitCodes::ExtrasError || code == CLI::ExitCodes::RequiredError;
    const std::string text = is_word ? unexpected(app, error.what()) : error.what();
    return fmt::format("{}; {} --help says more", text, full_name(innermost(app)));
}

/// The mistake may stand before --json was read.
bool asks_for_json(int argc, char** argv) {
    return std::any_of(argv, argv + argc,
                       [](const char* word) { return std::string_view(word) == "--json"; });
}

int main_of(int argc, char** argv) {
    Globals globals;
    CLI::App app{"arena: which GPUs and which parallelism a model should train with, and why"};
    app.name("arena");
    app.set_version_flag("--version", "arena " ARENA_VERSION);
    app.add_flag("--json", globals.json, "write one JSON document with schema_version");
    app.add_option("--config", globals.config_file,
                   "arena.yaml [$ARENA_CONF, else the one beside slurm.conf]");
    app.require_subcommand(1);
    app.fallthrough();
    app.failure_message([](const CLI::App* at, const CLI::Error& error) {
        return fmt::format("arena: {}\n", usage_sentence(at, error));
    });
    add_plan(app, globals);
    add_models(app, globals);
    add_evaluate(app, globals);
    add_explain(app, globals);
    add_measure(app, globals);
    add_report(app, globals);
    add_stats(app, globals);
    add_queue(app, globals);
    add_history(app, globals);
    add_exporter(app, globals);
    add_profile(app, globals);
    add_config(app, globals);
    CLI::App& slowdown = *app.add_subcommand("slowdown", "slow GPUs and links, and what is done");
    slowdown.require_subcommand(1);
    add_slowdown_of_jobs(slowdown, globals);
    add_slowdown_of_files(slowdown, globals);
    CLI::App& loan = *app.add_subcommand("loan", "inference nodes that are lent to training");
    loan.require_subcommand(1);
    add_loan_of_nodes(loan, globals);
    add_loan_of_files(loan, globals);
    add_array(app, globals);
    add_arrays_of_jobs(*app.get_subcommand("array"), globals);
    add_snapshot(app, globals);
    add_simulate(app, globals);
    add_trace(app, globals);
    add_evaluate_slowdown(app, globals);
    add_evaluate_loan(app, globals);
    add_evaluate_array(app, globals);
    add_doctor(app, globals);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (app.exit(error) == 0) return exit_yes;
        if (asks_for_json(argc, argv))
            print_error_json(arena::usage_error(usage_sentence(&app, error)));
        return exit_usage;
    }
    return globals.status;
}

}  // namespace

int main(int argc, char** argv) {
    return arena::run_program("arena", [&] { return main_of(argc, argv); });
}
