// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may lie in the profile spool; what is read back writes and reads the
// same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto profile = arena::parse_profile(text);
    if (!profile) return 0;
    const auto again = arena::parse_profile(arena::to_json(*profile));
    if (!again || !(*again == *profile)) std::abort();
    return 0;
}
