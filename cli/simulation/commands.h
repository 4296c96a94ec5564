// SPDX-License-Identifier: GPL-2.0-or-later
// The sub-commands of this room, added to `arena`.
#pragma once

#include <memory>

#include "cli/common/cli.h"

namespace arena::cli {

class SimulateAddition;  // simulate_options.h

/// With what another program adds to it.
void add_simulate(CLI::App&, Globals&, std::shared_ptr<SimulateAddition> = nullptr);
void add_trace(CLI::App&, Globals&);
void add_snapshot(CLI::App&, Globals&);

}  // namespace arena::cli
