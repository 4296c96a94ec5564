// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: any text may be a node's Gres; counts are positive and bounded.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "site/gpu_facts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const arena::NodeGpus& gpus : arena::parse_gres_config(text))
        if (gpus.count < 1 || gpus.count > 1024 || gpus.type.size() > text.size()) std::abort();
    return 0;
}
