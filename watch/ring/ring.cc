// SPDX-License-Identifier: GPL-2.0-or-later
// Payloads are stored with release and loaded with acquire: after the claim, before the second look
// at the stamp. On x86 these are plain moves.
#include "watch/ring/ring.h"

#include <array>

namespace arena::watch {
namespace {

using Words = std::array<std::uint64_t, 8>;  // [0] is the sequence, which the stamp tells

bool claim(Slot& slot, std::uint64_t ticket) {
    std::uint64_t stamp = slot.stamp.load(std::memory_order_relaxed);
    return stamp % 2 == 0 && stamp < written(ticket) &&
           slot.stamp.compare_exchange_strong(stamp, writing(ticket), std::memory_order_acq_rel,
                                              std::memory_order_relaxed);
}

}  // namespace

std::uint64_t write_record(const Ring& ring, const Record& record) {
    const std::uint64_t ticket = ring.header->head.fetch_add(1, std::memory_order_relaxed);
    Slot& slot = ring.slots[ticket & ring.mask];
    if (!claim(slot, ticket)) {
        ring.header->dropped.fetch_add(1, std::memory_order_relaxed);
        return ticket;
    }
    const auto words = std::bit_cast<Words>(record);
    for (int i = 0; i < payload_words; ++i)
        slot.words[i].store(words[static_cast<unsigned>(i) + 1], std::memory_order_release);
    slot.stamp.store(written(ticket), std::memory_order_release);
    return ticket;
}

Seen read_record(const Ring& ring, std::uint64_t ticket, Record& record) {
    const Slot& slot = ring.slots[ticket & ring.mask];
    const std::uint64_t stamp = slot.stamp.load(std::memory_order_acquire);
    if (stamp < written(ticket)) return Seen::not_yet;
    Words words{ticket};
    for (int i = 0; i < payload_words; ++i)
        words[static_cast<unsigned>(i) + 1] = slot.words[i].load(std::memory_order_acquire);
    if (stamp != written(ticket) || slot.stamp.load(std::memory_order_relaxed) != stamp)
        return Seen::lost;
    record = std::bit_cast<Record>(words);
    return Seen::record;
}

}  // namespace arena::watch
