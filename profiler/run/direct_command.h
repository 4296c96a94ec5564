// SPDX-License-Identifier: GPL-2.0-or-later
// `arena-profiler direct`: whole layers beside their prediction.
#pragma once

#include "profiler/core/options.h"

namespace arena {

/// Returns the exit code.
int run_direct_command(const Options&);

}  // namespace arena
