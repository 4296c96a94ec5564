// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may stand in a job's SystemComment; what is taken for an answer says
// itself again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "reports/next_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto answer = arena::parse_next_answer({reinterpret_cast<const char*>(data), size});
    if (!answer) return 0;
    const auto again = arena::parse_next_answer(arena::format_next_answer(*answer));
    if (!again || !(*again == *answer)) std::abort();
    return 0;
}
