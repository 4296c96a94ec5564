// SPDX-License-Identifier: GPL-2.0-or-later
#include "request/launchers.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "base/text.h"

namespace arena {
namespace {

struct Text {
    std::string_view name, table;
};
constexpr Text texts[] = {
#include "src/request/launcher_tables.inc"
};

std::vector<Launcher> parse_all() {
    std::vector<Launcher> list;
    for (const Text& text : texts) {
        Result<Launcher> launcher = parse_launcher_table(text.table, text.name);
        if (!launcher)
            throw std::logic_error(launcher.error().message());  // a unit test parses them
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
    const Result<Version> version = parse_version_of(*launcher, text.substr(at + 1));
    if (!version) return version.error();
    return LauncherChoice{launcher, *version};
}

std::string to_string(const LauncherChoice& choice) {
    return choice.launcher->name + (choice.version ? "@" + to_string(*choice.version) : "");
}

Capabilities capabilities_of(std::string_view launcher) {
    const Result<LauncherChoice> choice = parse_launcher(launcher);
    return choice ? choice->can() : Capabilities{};
}

FeatureSet Capabilities::plain() {
    static const FeatureSet told = find_launcher("env")->can().told;
    return told;
}

}  // namespace arena
