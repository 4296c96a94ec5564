// SPDX-License-Identifier: GPL-2.0-or-later
// The sub-commands of this room, added to `arena-lab`.
#pragma once

#include "cli/common/cli.h"

namespace arena::cli {

/// detect, period, locate, mitigate, show.
void add_lab_slowdown(CLI::App&, Globals&);
void add_evaluate_slowdown(CLI::App&, Globals&);

}  // namespace arena::cli
