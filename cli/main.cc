// SPDX-License-Identifier: GPL-2.0-or-later
// `arena`: the command. It composes the libraries; each sub-command is a file of its own, or of
// another program that is started.
#include <CLI/CLI.hpp>

#include "cli/cluster/commands.h"
#include "cli/common/program.h"
#include "cli/doctor/commands.h"
#include "cli/exporter/commands.h"
#include "cli/planning/commands.h"
#include "cli/simulation/commands.h"

namespace {

constexpr arena::cli::VerbElsewhere elsewhere[] = {
    {"snapshot", arena::cli::snapshot_about, "arena-simulation"},
    {"simulate", arena::cli::simulate_about, "arena-simulation"},
    {"trace", arena::cli::trace_about, "arena-simulation"},
};

void add_commands(CLI::App& app, arena::cli::Globals& globals) {
    using namespace arena::cli;
    add_plan(app, globals);
    add_models(app, globals);
    add_evaluate(app, globals);
    add_explain(app, globals);
    add_measure(app, globals);
    add_report(app, globals);
    add_next(app, globals);
    add_stats(app, globals);
    add_queue(app, globals);
    add_history(app, globals);
    add_exporter(app, globals);
    add_profile(app, globals);
    add_config(app, globals);
    add_slowdown(app, globals);
    add_loan(app, globals);
    add_array(app, globals);
    for (const VerbElsewhere& other : elsewhere) app.add_subcommand(other.verb, other.about);
    add_doctor(app, globals);
}

}  // namespace

int main(int argc, char** argv) {
    return arena::cli::run_commands(
        {.name = "arena",
         .about = "arena: which GPUs and which parallelism a model should train with, and why",
         .add_commands = add_commands,
         .elsewhere = elsewhere},
        argc, argv);
}
