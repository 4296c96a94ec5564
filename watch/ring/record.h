// SPDX-License-Identifier: GPL-2.0-or-later
// One communication call of a rank, as the recorder keeps it: 64 bytes, a cache line.
#pragma once

#include <array>
#include <cstdint>

#include "slowdown/op.h"

namespace arena::watch {

using slowdown::has_peer;
using slowdown::Op;
using slowdown::op_names;

/// Every call has one record of kind `call`, written when it is made. While the rank is profiled a
/// record of kind `timing` follows when the call's work has ended, with the same facts.
enum class Kind : std::uint8_t { call = 0, timing = 1 };

/// Who saw the call.
enum class Front : std::uint8_t { nccl = 0, mpi = 1, nccl_profiler = 2, step = 3, program = 4 };

/// NCCL's numbers of types; MPI's are told by them, `other` where NCCL has none.
enum class Type : std::uint8_t {
    int8 = 0,
    uint8 = 1,
    int32 = 2,
    uint32 = 3,
    int64 = 4,
    uint64 = 5,
    float16 = 6,
    float32 = 7,
    float64 = 8,
    bfloat16 = 9,
    float8_e4m3 = 10,
    float8_e5m2 = 11,
    other = 255,
};

/// Bytes of an element by type; 0: not known.
constexpr std::uint32_t type_bytes(std::uint32_t type) {
    constexpr std::array<std::uint8_t, 12> bytes{1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return type < bytes.size() ? bytes[type] : 0;
}

struct Record {
    std::uint64_t sequence = 0;     ///< 0, 1, ... in this ring; what is missing was lost
    std::uint64_t time_ns = 0;      ///< of the call, CLOCK_MONOTONIC_RAW: comparable on one node
    std::uint64_t comm = 0;         ///< names the communicator on all its ranks; below 2^62
    std::uint64_t count = 0;        ///< elements, as the call says them
    std::uint64_t bytes = 0;        ///< count times the element's; 0 where that is not known
    std::uint64_t duration_ns = 0;  ///< of a timing; else 0
    std::int32_t aux = -1;          ///< peer of send and recv, root, else the reduction; or -1
    std::uint32_t generation = 0;   ///< communicators made and freed so far in this process
    Op op = Op::invalid;
    Kind kind = Kind::call;
    Front front = Front::nccl;
    Type type = Type::other;
    std::uint32_t back = 0;  ///< of a timing: its call is so many records back; 0: not known
    bool operator==(const Record&) const = default;
};
static_assert(sizeof(Record) == 64);

}  // namespace arena::watch
