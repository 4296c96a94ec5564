// SPDX-License-Identifier: GPL-2.0-or-later
// The sub-commands of this room, added to `arena-lab`.
#pragma once

#include "cli/common/cli.h"

namespace arena::cli {

void add_lab_simulate(CLI::App&, Globals&);

}  // namespace arena::cli
