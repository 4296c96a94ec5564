// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: a ring's header may be any bytes, of a file of any size; what is accepted fits
// its file.
// also: watch/reader/ring_reader.cc watch/ring/ring.cc watch/ring/process.cc
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "watch/reader/ring_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::uint64_t bytes = 0;
    if (size < sizeof bytes) return 0;
    std::memcpy(&bytes, data, sizeof bytes);
    const std::string_view head(reinterpret_cast<const char*>(data) + sizeof bytes,
                                size - sizeof bytes);
    const auto facts = arena::watch::parse_ring_header(head, bytes);
    if (facts && bytes != arena::watch::ring_bytes(facts->capacity)) std::abort();
    return 0;
}
