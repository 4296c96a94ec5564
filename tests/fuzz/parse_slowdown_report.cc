// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may come as a job's report of a slow GPU or link; what is accepted is
// in range, says itself again, and is one word where a line shows it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "reports/slow_report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto report = arena::parse_slowdown_report({reinterpret_cast<const char*>(data), size});
    if (!report) return 0;
    const auto again = arena::parse_slowdown_report(arena::format_slow_report(*report));
    if (!arena::check_slow_report(*report) || !again || !arena::same_event(*report, *again))
        std::abort();
    if (arena::slow_word(*report).find_first_of(" \n;=") != std::string::npos) std::abort();
    return 0;
}
