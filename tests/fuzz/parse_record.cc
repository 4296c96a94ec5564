// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may claim to be a request record; what is accepted must write and
// read back as itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "request/request.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto parsed =
        arena::parse_record(std::string_view(reinterpret_cast<const char*>(data), size));
    if (!parsed) return 0;
    const auto text = arena::format_record(*parsed);
    if (!text) return 0;  // escapes and defaults may make it longer than a record may be
    const auto again = arena::parse_record(*text);
    if (!again || arena::format_record(*again).value() != *text) std::abort();
    return 0;
}
