// SPDX-License-Identifier: GPL-2.0-or-later
// The sub-commands of this room, added to `arena`.
#pragma once

#include "cli/common/cli.h"

namespace arena::cli {

void add_simulate(CLI::App&, Globals&);
void add_trace(CLI::App&, Globals&);
void add_snapshot(CLI::App&, Globals&);

}  // namespace arena::cli
