// SPDX-License-Identifier: GPL-2.0-or-later
// Any bytes may be a batch script; accepted settings obey the grammar.
#include "fuzz.h"
#include "request/request.h"

FUZZ(text) {
    const auto settings = arena::parse_directives(text);
    if (!settings) return;
    if (settings->size() > arena::max_directives) std::abort();
    for (const auto& [key, value] : *settings) {
        if (key.empty() || value.empty() || value.size() > 256) std::abort();
        for (const char c : value)
            if (c <= ' ' || c > '~' || c == '$' || c == '/' || c == '`' || c == '\'') std::abort();
    }
}
