// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may stand in ARENA_STATE; what is accepted writes and reads the same,
// but for a later version's, which is never written. also: plugin/common/job_mark.cc
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plugin/common/job_mark.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto mark = arena::parse_mark(text);
    if (mark && !mark->newer && arena::parse_mark(arena::format_mark(*mark)) != mark) std::abort();
    return 0;
}
