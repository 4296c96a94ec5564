// SPDX-License-Identifier: GPL-2.0-or-later
// What the sub-commands share: see cli.h.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <fmt/format.h>

#include "cli/cli.h"
#include "core/json.h"
#include "core/text.h"

namespace arena::cli {

int fail(const Globals& globals, const Error& error) {
    fmt::print(stderr, "arena: {}\n", error.message());
    if (globals.json) {
        const Json json{{"schema_version", 1},
                        {"error", {{"text", error.text}, {"where", error.where}}}};
        fmt::print("{}\n", dump_json(json));
    }
    switch (error.code) {
        case ErrorCode::usage: return exit_usage;
        case ErrorCode::no: return exit_no;
        case ErrorCode::environment: return exit_environment;
    }
    return exit_environment;
}

void warn(const std::vector<std::string>& sentences) {
    for (const std::string& sentence : sentences) fmt::print(stderr, "arena: {}\n", sentence);
}

std::string site_config_path(const Globals& globals) {
    return globals.config_file.empty() ? config_path() : globals.config_file;
}

Result<Config> load_site_config(const Globals& globals) {
    return load_user_config(site_config_path(globals));
}

Result<Profile> read_user_profile(const std::string& path) {
    const Result<std::string> text = read_user_file(path, max_profile_bytes);
    if (!text) return text.error();
    Result<Profile> profile = parse_profile(*text);
    if (!profile) return usage_error(profile.error().message(), path);
    return profile;
}

std::string utc_time(double epoch_s) {
    const auto seconds = static_cast<std::time_t>(epoch_s);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    return text;
}

std::string Table::text() const {
    std::vector<std::size_t> widths;
    for (const Column& column : columns_) widths.push_back(column.title.size());
    for (const auto& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string out;
    const auto put = [&](const std::string& cell, std::size_t i) {
        if (i > 0) out += "  ";
        const bool last = i + 1 == columns_.size();
        if (columns_[i].numeric) {
            out += fmt::format("{:>{}}", cell, widths[i]);
        } else {
            out += last ? cell : fmt::format("{:<{}}", cell, widths[i]);
        }
    };
    for (std::size_t i = 0; i < columns_.size(); ++i) put(columns_[i].title, i);
    out += '\n';
    for (const auto& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i) put(row[i], i);
        out += '\n';
    }
    return out;
}

}  // namespace arena::cli
