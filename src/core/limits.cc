// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/limits.h"

#include <algorithm>

namespace arena {

bool is_type_name(std::string_view name) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '.' || c == '-';
    };
    return !name.empty() && name.size() <= limits::name_bytes &&
           std::all_of(name.begin(), name.end(), allowed);
}

}  // namespace arena
