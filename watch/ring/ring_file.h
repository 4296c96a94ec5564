// SPDX-License-Identifier: GPL-2.0-or-later
// The ring as an object of POSIX shared memory, /arena-watch.JOB.STEP.RANK.RANDOM: made anew and
// for its owner alone, under a name that nobody can take first. What a dead process left for the
// same rank goes, and what this one left before exec. A ring outlives its process, so that its last
// records can be read; readers remove it.
#pragma once

#include <cstdint>

#include "watch/ring/ring.h"

namespace arena::watch {

constexpr const char* ring_folder = "/dev/shm";
constexpr const char* ring_prefix = "arena-watch.";

/// Null header: errno says why. The memory is there already: a full file system never becomes a
/// signal in the rank's next call.
Ring create_ring(const RingOwner& owner, std::uint64_t capacity);

}  // namespace arena::watch
