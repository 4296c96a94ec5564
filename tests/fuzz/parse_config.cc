// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may be arena.yaml.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "site/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    (void)arena::parse_config(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    return 0;
}
