// SPDX-License-Identifier: GPL-2.0-or-later
// Which link is slow, and how much of a call goes over it. Pure; it stands in a preloaded library
// and needs the C library alone.
#pragma once

#include <cstdint>
#include <string_view>

#include "watch/ring/record.h"

namespace arena::inject {

struct SlowLink {
    std::int64_t a = -1, b = -1;   ///< ranks of MPI_COMM_WORLD, different; -1: no link is slow
    std::int64_t delay_us = 0;     ///< of a message, 0..10^8
    std::int64_t bytes_per_s = 0;  ///< 0: as fast as it is; else at most 10^15
    bool operator==(const SlowLink&) const = default;
};

inline constexpr std::size_t most_rule_bytes = 256;

/// "ranks=A,B delay_us=N bytes_per_s=N", the last two optional, in this order, and a newline or
/// none. Nothing else: a link that is not slow.
SlowLink parse_slow_link(std::string_view text);

/// A call as one of the two ranks makes it, in ranks of its communicator.
struct LinkCall {
    watch::Op op = watch::Op::invalid;
    std::uint64_t bytes = 0;  ///< of the count that the call gives
    std::int64_t aux = -1;    ///< peer or root, else -1
    std::int64_t me = 0, other = 0;
    std::int64_t ranks = 2;
};

/// For how long the link holds the caller up, in microseconds. A message: by the sender, the delay
/// and bytes / rate. A collective of which both are part: the delay once, and its share of bytes:
/// where all ranks give and take alike, that of a ring in order of rank (2 (n - 1) / n of an
/// all-reduce, nothing where the two are no neighbours); with a root, that of a star around it.
double held_up_us(const SlowLink& link, const LinkCall& call);

}  // namespace arena::inject
