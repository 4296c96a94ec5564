// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may claim to be an operator key of a profile; what is read back must
// write the same key.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view key(reinterpret_cast<const char*>(data), size);
    const auto shape = arena::parse_op_key(key);
    if (shape && arena::op_key(*shape) != key) std::abort();
    return 0;
}
