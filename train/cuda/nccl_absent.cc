// SPDX-License-Identifier: GPL-2.0-or-later
// A build without NCCL: one rank, which talks to nobody.
#include <stdexcept>

#include "train/cuda/cuda_device.h"

namespace arena::train {

std::unique_ptr<Group> make_nccl_group(Comm&, CudaContext&) {
    throw std::runtime_error(
        "this build has no NCCL, so that it trains on one GPU: install libnccl-dev and configure "
        "again");
}

}  // namespace arena::train
