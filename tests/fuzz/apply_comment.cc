// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may be a job's Comment; what it makes of a wish stays within bounds.
// also: plugin/sched/wish.cc
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plugin/sched/wish.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    arena::Wish wish;
    if (!arena::apply_comment(text, wish)) return 0;
    const arena::Request& r = wish.request;
    if (wish.overridden && r.max_gpus != 0 && (r.min_gpus < 1 || r.max_gpus < r.min_gpus || r.max_gpus > 65536))
        std::abort();
    if (!text.starts_with("arena:") && (wish.off || wish.overridden)) std::abort();
    return 0;
}
