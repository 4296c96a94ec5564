// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may claim to be a pinned plan; what is accepted writes and reads the
// same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto pin = arena::parse_plan_pin(text);
    if (!pin) return 0;
    const auto again = arena::parse_plan_pin(arena::to_string(*pin));
    if (!again || *again != *pin) std::abort();
    return 0;
}
