// SPDX-License-Identifier: GPL-2.0-or-later
// What NCCL's profiler front asks of the preload front.
#pragma once

#include <cstdint>

namespace arena::watch::nccl {

/// The preload front has seen a communicator made: it records the calls, and nobody else does.
bool preload_is_active();
/// The name of the communicator that this thread is making just now; 0: none.
std::uint64_t name_in_the_making();

}  // namespace arena::watch::nccl
