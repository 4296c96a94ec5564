// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: the file that switches a slow link; what is accepted is within its ranges.
// also: tests/lab/inject/slow_link_rule.cc
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tests/lab/inject/slow_link_rule.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using arena::inject::SlowLink;
    const SlowLink link =
        arena::inject::parse_slow_link({reinterpret_cast<const char*>(data), size});
    const bool none = link == SlowLink{};
    const bool sound = link.a >= 0 && link.b >= 0 && link.a != link.b && link.delay_us >= 0 &&
                       link.delay_us <= 100'000'000 && link.bytes_per_s >= 0 &&
                       link.bytes_per_s <= 1'000'000'000'000'000;
    if (!none && !sound) std::abort();
    return 0;
}
