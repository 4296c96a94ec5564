// SPDX-License-Identifier: GPL-2.0-or-later
// The sub-commands of this room, added to `arena-lab`.
#pragma once

#include "cli/common/cli.h"

namespace arena::cli {

void add_evaluate_loan(CLI::App&, Globals&);
void add_lab_loan(CLI::App&, Globals&);

}  // namespace arena::cli
