// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may be a host list; what comes out is a host name and nothing else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/hostlist.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto host =
        arena::parse_first_host(std::string_view(reinterpret_cast<const char*>(data), size));
    if (!host) return 0;
    if (host->empty() || host->size() > 255) std::abort();
    if (host->find_first_of(" ,[]\n;$`'\"") != std::string::npos) std::abort();
    return 0;
}
