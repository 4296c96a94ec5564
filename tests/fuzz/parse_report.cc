// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may come as a job's report; what is accepted is in range and says
// itself again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/observation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto report = arena::parse_report({reinterpret_cast<const char*>(data), size});
    if (!report) return 0;
    if (!arena::check_report(*report) || !arena::parse_report(arena::format_report(*report)))
        std::abort();
    return 0;
}
