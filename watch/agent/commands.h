// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-watch agent`, which Slurm's plug-in and `arena-watch run` start, and `arena-watch run
// CMD`, which watches a program where no plug-in does.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"

namespace arena::watch {

/// words: what follows "agent": [--task PID]. Returns when its ranks have ended.
Status agent_command(const std::vector<std::string_view>& words);

/// words: what follows "run": [--mpi] [--] CMD... Becomes CMD, so that its exit code and signals
/// are CMD's own; returns only where it cannot.
Error run_command(const std::vector<std::string_view>& words);

}  // namespace arena::watch
