// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any bytes may lie beside a result in the profile spool; what is accepted is
// shown to people.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto progress = arena::parse_progress({reinterpret_cast<const char*>(data), size});
    if (!progress) return 0;
    if (progress->done > progress->total || arena::short_form(*progress).size() > 64) std::abort();
    return 0;
}
