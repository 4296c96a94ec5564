// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may claim to be a table of collectives; what is accepted is within
// its limits and reads back as itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/comm_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto times = arena::parse_comm_csv(text, "", "");
    if (!times) return 0;
    for (const auto& time : *times)
        if (!arena::check_comm_time(time)) std::abort();
    const auto again = arena::parse_comm_csv(arena::to_csv(*times), "", "");
    if (!again || again->size() != times->size()) std::abort();
    return 0;
}
