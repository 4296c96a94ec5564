// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may lie where a plug-in should; what comes out is a version.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "site/plugin_version.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto version =
        arena::parse_plugin_version(std::string_view(reinterpret_cast<const char*>(data), size));
    if (version && version->find_first_not_of("0123456789.") != std::string::npos) std::abort();
    return 0;
}
