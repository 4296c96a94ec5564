// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may be a slurm.conf; what is found in it is no longer than it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "site/slurm_conf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    std::size_t bytes = 0;
    for (const arena::SlurmConfLine& line : arena::parse_slurm_conf(text)) {
        if (line.value.empty()) std::abort();
        bytes += line.key.size() + line.value.size();
    }
    if (bytes > size) std::abort();
    return 0;
}
