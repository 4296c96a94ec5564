// SPDX-License-Identifier: GPL-2.0-or-later
// what scontrol prints holds users' comments: fields come from the text and
// nowhere else.

// also: cli/common/ask.cc
#include "cli/common/ask.h"
#include "fuzz.h"

FUZZ(text) {
    for (const auto& fields :
         {arena::cli::parse_scontrol_fields(text), arena::cli::parse_scontrol_config(text)})
        for (const auto& [key, value] : fields)
            if (text.find(key) == std::string_view::npos ||
                text.find(value) == std::string_view::npos)
                std::abort();
}
