// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may be arena.yaml; what is accepted is written and read back as
// itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "site/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto config =
        arena::parse_config(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    if (!config) return 0;
    const auto again = arena::parse_config(arena::to_yaml(*config), "again");
    if (!again || !(*again == *config)) std::abort();
    return 0;
}
