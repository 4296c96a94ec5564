// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may claim to be a saved snapshot, offers or a decision; what is read
// back writes and reads the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/decision.h"

namespace {

template <typename T>
void same_again(const arena::Result<T>& value, arena::Result<T> (*parse)(std::string_view)) {
    if (!value) return;
    const auto again = parse(arena::to_json(*value));
    if (!again || !(*again == *value)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    same_again(arena::parse_snapshot(text), &arena::parse_snapshot);
    same_again(arena::parse_offers(text), &arena::parse_offers);
    same_again(arena::parse_decision(text), &arena::parse_decision);
    return 0;
}
