// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>

#include "base/result.h"
#include "profiler/core/operator.h"

namespace arena {

/// The one visible GPU (CUDA_VISIBLE_DEVICES decides). ErrorCode::environment where there is none.
Result<std::unique_ptr<Backend>> make_cuda_backend();

}  // namespace arena
