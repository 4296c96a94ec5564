// SPDX-License-Identifier: GPL-2.0-or-later
// The options of `arena simulate`, and what they say to the simulator. Apart: the files of the
// workload (simulate_input.h), the runs and what is printed of them (simulate_command.cc).
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/simulation/simulate_input.h"
#include "policy/loans/demand.h"
#include "sim/simulator.h"

namespace arena::cli {

struct SimulateOptions {
    WorkloadFiles files;
    std::vector<std::string> policies{"arena"};
    std::string placement = "nodes", objective = "jct", order = "priority", html;
    std::string inference, loan = "on";
    LendingRules lending;
    std::string slowdowns, slowdown_mode = "off";
    double slowdown_factor = 2;
    double max_time_s = 0;
    double restart_s = -1, checkpoint_s = -1;
    std::int64_t iteration_divisor = 5;
    bool beside_stock = false;
    sim::SimulationOptions simulation;
};

/// Declares them; `given` outlives the command.
void add_simulate_options(CLI::App& command, SimulateOptions& given);

/// Reads --inference; --slowdowns needs the workload (read_slowdowns()). An error with code usage
/// for numbers that are not finite and options that do not go together.
Result<sim::SimulationOptions> simulation_options(const SimulateOptions& given);

}  // namespace arena::cli
