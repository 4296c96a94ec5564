// SPDX-License-Identifier: GPL-2.0-or-later
#include "core/launchers.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/text.h"

namespace arena {
namespace {

struct Text {
    std::string_view name, table;
};
constexpr Text texts[] = {
#include "src/core/launcher_tables.inc"
};

std::vector<Launcher> parse_all() {
    std::vector<Launcher> list;
    for (const Text& text : texts) {
        Result<Launcher> launcher = parse_launcher_table(text.table, text.name);
        if (!launcher) throw std::logic_error(launcher.error().message());  // a unit test parses them
        list.push_back(std::move(launcher).value());
    }
    return list;
}

const std::vector<Launcher>& table() {
    static const std::vector<Launcher> list = parse_all();
    return list;
}

}  // namespace

std::span<const Launcher> launchers() { return table(); }

const Launcher* find_launcher(std::string_view name) {
    const auto at = std::find_if(table().begin(), table().end(),
                                 [&](const Launcher& launcher) { return launcher.name == name; });
    return at == table().end() ? nullptr : &*at;
}

std::string launcher_names() {
    std::vector<std::string> names;
    for (const Launcher& launcher : table()) names.push_back(launcher.name);
    return join(names, ", ");
}

Result<LauncherChoice> parse_launcher(std::string_view text) {
    const std::size_t at = text.find('@');
    const Launcher* launcher = find_launcher(text.substr(0, at));
    if (launcher == nullptr)
        return usage_error(fmt::format("'{}' is not one of {}", printable(text.substr(0, at), 40),
                                       launcher_names()));
    if (at == std::string_view::npos) return LauncherChoice{launcher, launcher->version};
    const std::string_view version = text.substr(at + 1);
    if (!launcher->version)
        return usage_error(fmt::format("{} has no versions: leave out '@{}'", launcher->name,
                                       printable(version, 40)));
    const auto parsed = parse_version(version);
    if (!parsed)
        return usage_error(fmt::format("'{}' is no version of {}: give one such as {}@{}",
                                       printable(version, 40), launcher->name, launcher->name,
                                       to_string(*launcher->version)));
    if (!launcher->knows(*parsed))
        return usage_error(fmt::format("{} {} is not known: its versions are {}", launcher->name,
                                       to_string(*parsed), launcher->known_versions()));
    return LauncherChoice{launcher, parsed};
}

std::string to_string(const LauncherChoice& choice) {
    return choice.launcher->name + (choice.version ? "@" + to_string(*choice.version) : "");
}

Capabilities capabilities_of(std::string_view launcher) {
    const Result<LauncherChoice> choice = parse_launcher(launcher);
    return choice ? choice->can() : Capabilities{};
}

}  // namespace arena
