// SPDX-License-Identifier: GPL-2.0-or-later
// Copies between the GPUs of a node, by the driver: what a check measures of links.
#pragma once

#include <cstdint>
#include <memory>

#include "profiler/check/links.h"

namespace arena {

/// How many GPUs this process sees.
Result<std::int64_t> count_cuda_devices();
/// Between the first `devices` of them.
Result<std::unique_ptr<Links>> make_cuda_links(std::int64_t devices);

}  // namespace arena
