// SPDX-License-Identifier: GPL-2.0-or-later
// A build without NCCL: one rank, which talks to nobody.
#include <stdexcept>

#include "train/core/far_device.h"

namespace arena::train {

std::unique_ptr<FarGroup> make_group(Comm& comm, const FarDevice&) {
    if (comm.size() > 1)
        throw std::runtime_error(
            "this build has no NCCL, so that it trains on one GPU: install libnccl-dev and "
            "configure again");
    return make_lone_group();
}

}  // namespace arena::train
