// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>

#include "base/result.h"
#include "profiler/core/operator.h"

namespace arena {

/// One of the visible GPUs (CUDA_VISIBLE_DEVICES decides), which is the calling thread's from then
/// on: one backend at a time. ErrorCode::environment where there is none.
Result<std::unique_ptr<Backend>> make_cuda_backend(int device = 0);

}  // namespace arena
