// SPDX-License-Identifier: GPL-2.0-or-later
// The sub-commands of this room, added to `arena`.
#pragma once

#include "cli/common/cli.h"

namespace arena::cli {

/// To the group `slowdown`: the parts of it that need files only.
void add_slowdown_of_files(CLI::App& group, Globals&);
void add_evaluate_slowdown(CLI::App&, Globals&);

}  // namespace arena::cli
