// SPDX-License-Identifier: GPL-2.0-or-later
// `arena`: the command. It composes the libraries; each sub-command is a file of its own. Exit codes:
// 0 yes, 1 no, 2 usage, 3 environment.
#include <exception>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/cli.h"

using namespace arena::cli;

int main(int argc, char** argv) {
    Globals globals;
    CLI::App app{"arena: which GPUs and which parallelism a model should train with, and why"};
    app.name("arena");
    app.set_version_flag("--version", "arena " ARENA_VERSION);
    app.add_flag("--json", globals.json, "write one JSON document with schema_version");
    app.add_option("--config", globals.config_file, "arena.yaml [$ARENA_CONF, else the installed one]");
    app.require_subcommand(1);
    app.fallthrough();
    add_plan(app, globals);
    add_evaluate(app, globals);
    add_explain(app, globals);
    add_measure(app, globals);
    add_report(app, globals);
    add_stats(app, globals);
    add_queue(app, globals);
    add_profile(app, globals);
    add_config(app, globals);
    add_snapshot(app, globals);
    add_simulate(app, globals);
    add_trace(app, globals);
    add_doctor(app, globals);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? exit_yes : exit_usage;
    } catch (const std::exception& error) {
        fmt::print(stderr, "arena: internal error: {}\n", error.what());
        return exit_environment;
    }
    return globals.status;
}
