// SPDX-License-Identifier: GPL-2.0-or-later
// A stream of communication calls as one rank makes them: what the recorder keeps of a call. What
// a stream says about time is period.h's. Source: Greyhound (ATC'25), section on tracking.
#pragma once

#include <compare>
#include <cstdint>

#include "slowdown/op.h"

namespace arena::slowdown {

/// What makes two calls of a rank the same step of its program.
struct CallKey {
    Op op = Op::invalid;
    std::int64_t count = 0;  ///< elements, >= 0
    std::int64_t comm = 0;   ///< names a communicator within the stream
    std::int64_t peer = -1;  ///< of send and recv; -1: not known
    auto operator<=>(const CallKey&) const = default;
};

struct Call {
    CallKey key;
    std::int64_t time_us = 0;  ///< on one clock, not decreasing within a stream
};

}  // namespace arena::slowdown
