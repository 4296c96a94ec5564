// SPDX-License-Identifier: GPL-2.0-or-later
// The operations of communication calls, by number: 0 to 7 are those of Greyhound's published logs,
// new ones follow from 8. The recorder, which needs the C library alone, writes them; the analysis
// reads them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace arena::slowdown {

enum class Op : std::uint8_t {
    send = 0,
    recv = 1,
    bcast = 2,
    broadcast = 3,
    all_gather = 4,
    reduce_scatter = 5,
    all_reduce = 6,
    invalid = 7,
    reduce = 8,
    all_to_all = 9,
    gather = 10,
    scatter = 11,
    barrier = 12,
    step = 13,  ///< arena_watch_step(); `count`: tokens, 0 where not said
};

inline constexpr std::array<std::string_view, 14> op_names{
    "send",    "recv",   "bcast",      "broadcast", "all_gather", "reduce_scatter", "all_reduce",
    "invalid", "reduce", "all_to_all", "gather",    "scatter",    "barrier",        "step"};

/// The largest number that is read: later recorders may know more.
inline constexpr std::int64_t most_op = 63;

constexpr bool has_peer(Op op) { return op == Op::send || op == Op::recv; }

}  // namespace arena::slowdown
