// SPDX-License-Identifier: GPL-2.0-or-later
// libFuzzer target: what scontrol prints holds users' comments: fields come from the text and
// nowhere else. also: cli/common/ask.cc
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/common/ask.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const auto& fields :
         {arena::cli::parse_scontrol_fields(text), arena::cli::parse_scontrol_config(text)})
        for (const auto& [key, value] : fields)
            if (text.find(key) == std::string_view::npos ||
                text.find(value) == std::string_view::npos)
                std::abort();
    return 0;
}
