// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-simulation`: the verbs of `arena` that try policies without a cluster. `arena` starts it,
// so that who only runs jobs builds neither simulator nor baselines.
#include <CLI/CLI.hpp>

#include "cli/common/program.h"
#include "cli/simulation/commands.h"

namespace {

void add_commands(CLI::App& app, arena::cli::Globals& globals) {
    using namespace arena::cli;
    add_snapshot(app, globals);
    add_simulate(app, globals);
    add_trace(app, globals);
}

}  // namespace

int main(int argc, char** argv) {
    return arena::cli::run_commands({.name = "arena",
                                     .about = "arena: policies without a cluster",
                                     .add_commands = add_commands},
                                    argc, argv);
}
