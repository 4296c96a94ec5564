// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may come as a job's question for its next plan; what is accepted says
// itself again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "reports/next_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto ask = arena::parse_next_ask({reinterpret_cast<const char*>(data), size});
    if (!ask) return 0;
    const auto again = arena::parse_next_ask(arena::format_next_ask(*ask));
    if (!again || !(*again == *ask)) std::abort();
    return 0;
}
