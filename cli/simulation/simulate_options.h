// SPDX-License-Identifier: GPL-2.0-or-later
// The options of `arena simulate`, and what they say to the simulator. Apart: the files of the
// workload (simulate_input.h), the runs and what is printed of them (simulate_command.cc).
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/simulation/simulate_input.h"
#include "policy/loans/demand.h"
#include "sim/page.h"
#include "sim/simulator.h"

namespace arena::cli {

struct SimulateOptions {
    WorkloadFiles files;
    std::vector<std::string> policies{"arena"};
    std::string placement = "nodes", objective = "jct", order = "priority", html;
    std::string inference, loan = "on";
    LendingRules lending;
    double max_time_s = 0;
    double restart_s = -1, checkpoint_s = -1, true_restart_s = -1;
    std::int64_t iteration_divisor = 5;
    bool beside_stock = false;
    sim::SimulationOptions simulation;
};

/// What another program adds to `arena simulate`: options of its own, what they change in a
/// simulation, and a second run beside each. (tests/lab/simulation: slow GPUs and links.)
class SimulateAddition {
  public:
    virtual ~SimulateAddition() = default;
    /// `given` outlives the command.
    virtual void add_options(CLI::App& command, SimulateOptions& given) = 0;
    /// Before any file is read. An error has code usage.
    [[nodiscard]] virtual Status check(const SimulateOptions& given) const = 0;
    virtual Status read(const sim::Workload&, sim::SimulationOptions&) const = 0;
    /// A row of the page's head, where there is something to say.
    virtual void add_facts(const sim::SimulationOptions&, sim::PageFacts&) const = 0;
    /// Of the second run; nothing: there is none.
    [[nodiscard]] virtual std::optional<sim::SimulationOptions> beside(
        const sim::SimulationOptions&) const = 0;
    virtual void compare(const sim::Metrics& beside, sim::Metrics& run) const = 0;
    /// A table for people, below the others.
    virtual void print(const std::vector<sim::Metrics>& runs) const = 0;
};

/// Declares them; `given` outlives the command.
void add_simulate_options(CLI::App& command, SimulateOptions& given, SimulateAddition* addition);

/// An option, and the number that it was given.
using OptionNumber = std::pair<const char*, double>;
/// CLI11's ranges let NaN through. An error has code usage.
Status check_finite(std::span<const OptionNumber> numbers);

/// Reads --inference. An error with code usage for numbers that are not finite and options that do
/// not go together.
Result<sim::SimulationOptions> simulation_options(const SimulateOptions& given);

}  // namespace arena::cli
