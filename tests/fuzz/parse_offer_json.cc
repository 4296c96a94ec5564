// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may claim to be ARENA_PLAN; what is accepted writes and reads the
// same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/offer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto offer = arena::parse_offer_json(text);
    if (!offer) return 0;
    const auto written = arena::to_json(*offer);
    const auto again = arena::parse_offer_json(written);
    if (!again || arena::to_json(*again) != written) std::abort();
    return 0;
}
