// SPDX-License-Identifier: GPL-2.0-or-later
// Ranks as threads of this process: a run on one node, without MPI.
#pragma once

#include <functional>

#include "profiler/comm/transport.h"

namespace arena {

/// Calls body, which throws nothing, on `ranks` threads, each with its own view, and waits for all:
/// the largest code.
int run_in_threads(int ranks, const std::function<int(Transport&)>& body);

}  // namespace arena
