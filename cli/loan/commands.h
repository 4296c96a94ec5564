// SPDX-License-Identifier: GPL-2.0-or-later
// The sub-commands of this room, added to `arena` and to `arena loan`.
#pragma once

#include "cli/common/cli.h"

namespace arena::cli {

void add_evaluate_loan(CLI::App&, Globals&);
void add_loan_of_files(CLI::App& group, Globals&);

}  // namespace arena::cli
