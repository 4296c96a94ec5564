// SPDX-License-Identifier: GPL-2.0-or-later
// The sub-commands of this room, added to `arena-lab`.
#pragma once

#include "cli/common/cli.h"

namespace arena::cli {

void add_lab_array(CLI::App&, Globals&);
void add_evaluate_array(CLI::App&, Globals&);

/// Of `arena-lab array`, in the files of their names.
void add_array_solve(CLI::App& group, Globals&);
void add_array_check(CLI::App& group, Globals&);
void add_array_compare(CLI::App& group, Globals&);

}  // namespace arena::cli
