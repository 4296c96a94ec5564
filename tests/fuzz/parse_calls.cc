// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: a table of communication calls; what is accepted is in order of time.
// also: tests/lab/slowdown/truth/calls_file.cc
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tests/lab/slowdown/truth/calls_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace arena::slowdown;
    const auto streams = parse_calls({reinterpret_cast<const char*>(data), size}, "calls.csv");
    if (!streams) return 0;
    for (const CallStream& stream : *streams)
        for (std::size_t i = 1; i < stream.calls.size(); ++i)
            if (stream.calls[i].time_us < stream.calls[i - 1].time_us) std::abort();
    return 0;
}
