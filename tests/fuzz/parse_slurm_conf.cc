// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may be a slurm.conf; what is found in it is in it.
// also: profiler/prolog_help.cc profiler/request.cc
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "profiler/prolog_help.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const arena::SlurmConfPart part = arena::parse_slurm_conf(text);
    if (part.user_after > part.includes.size() || text.find(part.slurm_user) == std::string_view::npos) std::abort();
    for (const auto& include : part.includes)
        if (include.empty() || text.find(include) == std::string_view::npos) std::abort();
    return 0;
}
