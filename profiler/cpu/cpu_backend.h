// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "profiler/core/operator.h"

namespace arena {

/// threads: at most this many, 0 = as many as the affinity mask allows.
Result<std::unique_ptr<Backend>> make_cpu_backend(std::int64_t threads);

}  // namespace arena
