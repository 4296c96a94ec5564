// SPDX-License-Identifier: GPL-2.0-or-later
#include "plugin/spank/given.h"

#include <algorithm>

#include "base/text.h"
#include "reports/watch_preload.h"

namespace arena {

std::string given_also(std::string_view given, const std::vector<std::string_view>& names) {
    std::string all(given);
    for (const std::string_view name : names) {
        const auto known = split(all, ' ');
        if (std::find(known.begin(), known.end(), name) != known.end()) continue;
        if (!all.empty()) all += ' ';
        all += name;
    }
    return all;
}

std::vector<std::pair<std::string, std::optional<std::string>>> taken_back(
    std::string_view given, std::string_view preload) {
    std::vector<std::pair<std::string, std::optional<std::string>>> list;
    for (const std::string_view name : split(given, ' ')) {
        if (name.empty() || name.find('=') != std::string_view::npos) continue;
        const std::string rest = name == "LD_PRELOAD" ? without_recorder(preload) : "";
        list.emplace_back(name, rest.empty() ? std::nullopt : std::optional(rest));
    }
    return list;
}

}  // namespace arena
