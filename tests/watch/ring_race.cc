// SPDX-License-Identifier: GPL-2.0-or-later
// Eight writers and a reader on one small ring, for ThreadSanitizer: prints nothing where all is
// well.
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "watch/ring/ring.h"

using namespace arena::watch;

namespace {

constexpr std::uint64_t capacity = 64, threads = 8, each = 20'000;

Record record_of(std::uint64_t count) {
    Record r;
    r.time_ns = r.comm = r.count = r.bytes = r.duration_ns = count;
    return r;
}

bool is_whole(const Record& r) {
    return r.time_ns == r.count && r.comm == r.count && r.bytes == r.count &&
           r.duration_ns == r.count;
}

}  // namespace

int main() {
    RingHeader header;
    std::vector<Slot> places(capacity);
    const Ring ring{&header, places.data(), capacity - 1};
    std::vector<std::jthread> writers;
    for (std::uint64_t t = 0; t < threads; ++t)
        writers.emplace_back([&ring, t] {
            for (std::uint64_t i = 0; i < each; ++i) write_record(ring, record_of(t << 32 | i));
        });
    std::uint64_t whole = 0, torn = 0;
    Record record;
    while (header.head.load() < threads * each) {
        const std::uint64_t head = header.head.load();
        for (std::uint64_t at = head < capacity ? 0 : head - capacity; at < head; ++at)
            if (read_record(ring, at, record) == Seen::record)
                (is_whole(record) ? whole : torn) += 1;
    }
    if (torn > 0 || whole == 0)
        std::printf("%llu torn, %llu whole\n", static_cast<unsigned long long>(torn),
                    static_cast<unsigned long long>(whole));
    return torn > 0 || whole == 0 ? 1 : 0;
}
