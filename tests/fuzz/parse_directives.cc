// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may be a batch script; accepted settings obey the grammar.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "request/request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto settings =
        arena::parse_directives(std::string_view(reinterpret_cast<const char*>(data), size));
    if (!settings) return 0;
    if (settings->size() > arena::max_directives) std::abort();
    for (const auto& [key, value] : *settings) {
        if (key.empty() || value.empty() || value.size() > 256) std::abort();
        for (const char c : value)
            if (c <= ' ' || c > '~' || c == '$' || c == '/' || c == '`' || c == '\'') std::abort();
    }
    return 0;
}
