// SPDX-License-Identifier: GPL-2.0-or-later
// The sub-commands of this room, added to `arena`.
#pragma once

#include "cli/common/cli.h"

namespace arena::cli {

void add_explain(CLI::App&, Globals&);
void add_history(CLI::App&, Globals&);
void add_queue(CLI::App&, Globals&);
void add_stats(CLI::App&, Globals&);
void add_report(CLI::App&, Globals&);
/// For scripts of jobs that move inside themselves.
void add_next(CLI::App&, Globals&);
void add_profile(CLI::App&, Globals&);
void add_config(CLI::App&, Globals&);
/// Which nodes are lent, and an administrator's word about it.
void add_loan(CLI::App&, Globals&);
/// The jobs that train members of arrays.
void add_array(CLI::App&, Globals&);
/// What watched jobs say, and what becomes of it.
void add_slowdown(CLI::App&, Globals&);

}  // namespace arena::cli
