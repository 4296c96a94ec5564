// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-lab`: what grades and compares this package's answers, for its makers: files with known
// answers about slowdowns, loans and arrays, ways to schedule an array. No user needs it.
#include <CLI/CLI.hpp>

#include "cli/common/program.h"
#include "tests/lab/array/commands.h"
#include "tests/lab/loan/commands.h"
#include "tests/lab/simulation/commands.h"
#include "tests/lab/slowdown/commands.h"

namespace {

void add_commands(CLI::App& app, arena::cli::Globals& globals) {
    using namespace arena::cli;
    add_lab_slowdown(app, globals);
    add_lab_loan(app, globals);
    add_lab_array(app, globals);
    add_lab_simulate(app, globals);
    add_evaluate_slowdown(app, globals);
    add_evaluate_loan(app, globals);
    add_evaluate_array(app, globals);
}

}  // namespace

int main(int argc, char** argv) {
    return arena::cli::run_commands(
        {.name = "arena-lab",
         .about = "arena-lab: answers about slow nodes, loans and arrays, held against known ones",
         .add_commands = add_commands},
        argc, argv);
}
