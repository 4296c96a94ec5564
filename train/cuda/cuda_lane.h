// SPDX-License-Identifier: GPL-2.0-or-later
// Copies of an array's states on a stream of their own (CopyLane), beside the kernels of the rank's
// stream.
#pragma once

#include "train/cuda/cuda_device.h"

namespace arena::train {

/// On the GPU that is current in the caller's thread. The context outlives it.
std::unique_ptr<CopyLane> make_cuda_lane(CudaContext&, std::size_t marks);

/// A failure is none: copies of memory that is not pinned go through the driver's own buffers.
void pin_memory(void* host, std::size_t bytes) noexcept;
void unpin_memory(void* host) noexcept;

}  // namespace arena::train
