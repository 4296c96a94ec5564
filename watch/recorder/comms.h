// SPDX-License-Identifier: GPL-2.0-or-later
// Communicators by their handles in this process, and by names that are the same on all their
// ranks: a hash of what made them. NCCL's unique id names one; a split has none, and is named by
// its parent, its colour and which split of the parent it was.
#pragma once

#include <cstdint>

#include "watch/recorder/recorder.h"

namespace arena::watch {

/// A handle is a pointer or a number of the library's.
using Handle = std::uint64_t;

/// Its name; one that was not seen to be made has a name of this process alone.
ARENA_WATCH_EXPORT std::uint64_t comm_name(Handle comm);
ARENA_WATCH_EXPORT void add_comm(Handle comm, std::uint64_t name);
ARENA_WATCH_EXPORT void remove_comm(Handle comm);
/// How many have been made from `parent` before: 0, 1, ...; all its ranks agree, for they all make
/// them.
ARENA_WATCH_EXPORT std::uint32_t next_child(Handle parent);

}  // namespace arena::watch
