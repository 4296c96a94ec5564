// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may claim to be the request of a carrier job; what is accepted reads
// back as itself, if it fits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto request = arena::parse_profile_request(text);
    if (!request) return 0;
    const auto written = arena::to_json(*request);
    if (written.size() > arena::max_profile_request_bytes) return 0;  // escapes may make it longer
    const auto again = arena::parse_profile_request(written);
    if (!again || !(*again == *request)) std::abort();
    return 0;
}
