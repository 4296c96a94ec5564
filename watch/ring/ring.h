// SPDX-License-Identifier: GPL-2.0-or-later
// The shared memory between a rank and who watches it: a header and a ring of slots, overwritten
// from the oldest. Writers never wait: not for a reader, not for each other (a rank has several
// threads). A reader sees each record whole, and knows how many it missed.
//
// A slot's stamp says whose turn it is: 2t+1 while record t is written, 2t+2 once it is there. A
// writer takes a ticket t from `head`, claims the slot by exchanging an even, older stamp, and
// drops its record (counted) where another is still in the slot, a whole ring behind. All words are
// atomic, so that a torn read is one that the stamp shows, never undefined.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "watch/ring/record.h"

namespace arena::watch {

constexpr std::uint64_t ring_magic = 0x31766374'61775241;  // "ARwatcv1"
constexpr std::uint32_t ring_version = 1;
constexpr std::uint64_t least_records = 64;
constexpr std::uint64_t most_records = std::uint64_t{1} << 22;
constexpr std::uint64_t usual_records = std::uint64_t{1} << 15;  ///< 2 MiB per rank

/// What a reader asks of a rank.
enum class Control : std::uint32_t {
    record = 0,
    profile = 1,  ///< timings as well
    pause = 2,    ///< nothing, as where recording costs too much
};

/// Who records. Plain words: written once, before the magic.
struct RingOwner {
    std::uint64_t job = 0;   ///< 0: not Slurm's
    std::uint32_t step = 0;  ///< of Slurm, else a hash of what the launcher calls the run
    std::uint32_t life = 0;  ///< restarts of the job before this one
    std::uint32_t rank = 0;
    std::uint32_t local_rank = 0;
    std::uint32_t ranks = 0;  ///< 0: not known
    std::uint32_t node = 0;
    std::uint32_t pid = 0;
    std::uint32_t uid = 0;
    std::uint64_t pid_started = 0;  ///< clock ticks since boot, of /proc/PID/stat
    std::uint64_t opened_ns = 0;    ///< CLOCK_MONOTONIC_RAW
    std::uint64_t opened_realtime_ns = 0;
    bool operator==(const RingOwner&) const = default;
};

struct alignas(64) RingHeader {
    std::uint64_t magic = 0;  ///< atomic_ref: written last
    std::uint32_t version = 0;
    std::uint32_t slot_bytes = 0;
    std::uint64_t capacity = 0;  ///< a power of two
    RingOwner owner;
    /// What ranks write often, and what a reader writes: in lines of their own.
    alignas(64) std::atomic<std::uint64_t> head{0};  ///< tickets given out
    std::atomic<std::uint64_t> dropped{0};           ///< of these, never written
    alignas(64) std::atomic<Control> control{Control::record};
    std::atomic<std::uint32_t> ended{0};   ///< the process left by exit
    std::atomic<std::int32_t> device{-1};  ///< CUDA ordinal
};

constexpr int payload_words = 7;
struct alignas(64) Slot {
    std::atomic<std::uint64_t> stamp{0};
    std::atomic<std::uint64_t> words[payload_words]{};
};
static_assert(sizeof(Slot) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

constexpr std::uint64_t ring_bytes(std::uint64_t capacity) {
    return sizeof(RingHeader) + capacity * sizeof(Slot);
}
constexpr std::uint64_t writing(std::uint64_t ticket) { return 2 * ticket + 1; }
constexpr std::uint64_t written(std::uint64_t ticket) { return 2 * ticket + 2; }

struct Ring {
    RingHeader* header = nullptr;
    Slot* slots = nullptr;
    std::uint64_t mask = 0;  ///< capacity - 1, once checked
};

/// Safe from every thread, and from a signal handler. Returns the sequence number; `record`'s own
/// is not read.
std::uint64_t write_record(const Ring& ring, const Record& record);

enum class Seen { record, not_yet, lost };
/// Record `ticket` as it stands there now.
Seen read_record(const Ring& ring, std::uint64_t ticket, Record& record);

}  // namespace arena::watch
