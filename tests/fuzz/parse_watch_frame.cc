// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any process of a job may write to the chief's port; what is accepted says
// itself again.
// also: watch/wire/frames.cc
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "watch/wire/frames.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto frame = arena::watch::parse_watch_frame({reinterpret_cast<const char*>(data), size});
    if (!frame) return 0;
    const std::string line = arena::watch::format_watch_frame(*frame);
    const auto again = arena::watch::parse_watch_frame(line);
    if (line.find('\n') != std::string::npos || !again ||
        arena::watch::format_watch_frame(*again) != line)
        std::abort();
    return 0;
}
