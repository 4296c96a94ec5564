// SPDX-License-Identifier: GPL-2.0-or-later
// The sub-commands of this room, added to `arena-simulation`, which `arena` starts.
#pragma once

#include <memory>

#include "cli/common/cli.h"

namespace arena::cli {

/// Of --help; here, as `arena` lists these commands and starts the program that has them.
inline constexpr const char* simulate_about = "run policies on a trace of jobs";
inline constexpr const char* trace_about = "traces of jobs for arena simulate";
inline constexpr const char* snapshot_about = "save or repeat a decision";

class SimulateAddition;  // simulate_options.h

/// With what another program adds to it.
void add_simulate(CLI::App&, Globals&, std::shared_ptr<SimulateAddition> = nullptr);
void add_trace(CLI::App&, Globals&);
/// `import` and `report`, below `trace`.
void add_trace_history(CLI::App& trace, Globals&);
void add_snapshot(CLI::App&, Globals&);

}  // namespace arena::cli
