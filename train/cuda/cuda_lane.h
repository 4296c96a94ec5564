// SPDX-License-Identifier: GPL-2.0-or-later
// Copies of an array's states on a stream of their own (CopyLane), beside the kernels of the rank's
// stream.
#pragma once

#include "train/cuda/cuda_device.h"

namespace arena::train {

/// On the GPU that is current in the caller's thread. The context outlives it.
std::unique_ptr<CopyLane> make_cuda_lane(CudaContext&, std::size_t marks);

}  // namespace arena::train
