// SPDX-License-Identifier: GPL-2.0-or-later
// Collectives between host memories over TCP: ring algorithms as NCCL has them, without a GPU. What
// `arena-profiler comm --device cpu` measures; times of an emulated type's network, never a GPU's.
#pragma once

#include <memory>

#include "base/result.h"
#include "profiler/comm/comm.h"
#include "profiler/comm/peer_sockets.h"

namespace arena {

/// At most this many ranks: each has a connection with each other.
inline constexpr std::int64_t max_host_ranks = 256;
/// Collective. A rank that is gone ends every call of the others at once, with its number.
Result<std::unique_ptr<Communicator>> make_host_communicator(const CommSetup&, const PeerPlace&);

}  // namespace arena
