// SPDX-License-Identifier: GPL-2.0-or-later
// Stands where NCCL is missing, and says so.
#include "profiler/comm/comm.h"

namespace arena {
namespace {

Error no_nccl() {
    return environment_error(
        "this build measures no collectives: configure found no CUDA or no NCCL (nccl.h)");
}

}  // namespace

Result<std::int64_t> count_comm_devices() { return no_nccl(); }
Result<std::unique_ptr<Communicator>> make_communicator(const CommSetup&) { return no_nccl(); }

}  // namespace arena
