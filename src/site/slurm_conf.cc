// SPDX-License-Identifier: GPL-2.0-or-later
// See slurm_conf.h.
#include "site/slurm_conf.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/text.h"
#include "base/trusted_path.h"

namespace arena {
namespace {

/// Up to the first '#' that no odd number of backslashes escapes.
std::string_view without_comment(std::string_view line) {
    bool is_escaped = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '#' && !is_escaped) return line.substr(0, i);
        is_escaped = line[i] == '\\' && !is_escaped;
    }
    return line;
}

/// Where the backslash is that continues the line, after which only blanks may come; npos: nowhere.
std::size_t continuation(std::string_view line) {
    const std::size_t last = line.find_last_not_of(" \t\r");
    if (last == std::string_view::npos || line[last] != '\\') return std::string_view::npos;
    const std::size_t before = line.find_last_not_of('\\', last);
    const std::size_t count = before == std::string_view::npos ? last + 1 : last - before;
    return count % 2 == 1 ? last : std::string_view::npos;
}

/// A backslash keeps what follows it.
std::string without_escapes(std::string_view line) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\\' && ++i == line.size()) break;
        text += line[i];
    }
    return text;
}

/// One word, or what is in quotes.
std::string_view value_of(std::string_view text) {
    text = trim(text);
    if (text.starts_with('"'))
        if (const std::size_t end = text.find('"', 1); end != std::string_view::npos)
            return text.substr(1, end - 1);
    return text.substr(0, text.find_first_of(" \t\r"));
}

/// %c is ClusterName in lower case.
Result<std::filesystem::path> included_path(std::string name, const std::string& from,
                                            const SlurmConf& conf) {
    const std::string cluster = lower_case(conf.value("clustername"));
    for (std::size_t at = 0; (at = name.find("%c", at)) != std::string::npos;) {
        if (cluster.empty())
            return environment_error(
                "includes " + printable(name, 80) + " before it names a ClusterName", from);
        name.replace(at, 2, cluster);
        at += cluster.size();
    }
    std::filesystem::path path(name);
    return path.is_relative() ? std::filesystem::path(from).parent_path() / path : path;
}

/// What a link leads to, where only root and whoever runs this could have set it: slurmd follows
/// it, and root's Prolog goes by what stands there.
Result<std::string> real_file(const std::string& path) {
    std::error_code no_link;
    if (!std::filesystem::is_symlink(path, no_link)) return path;
    if (const Status status = check_trusted(path, ::geteuid()); !status)
        return environment_error(fmt::format("is a symbolic link by way of {}, which {}",
                                             status.error().where, status.error().text),
                                 path);
    const std::filesystem::path real = std::filesystem::canonical(path, no_link);
    if (no_link)
        return environment_error("is a symbolic link to what cannot be found: " + no_link.message(),
                                 path);
    return real.string();
}

/// One file and, at their places, those that it includes.
Status read_into(const std::string& path, SlurmConf& conf, std::size_t& files) {
    if (++files > max_conf_files)
        return environment_error("includes more than 64 files, or itself", path);
    const auto real = real_file(path);
    if (!real) return real.error();
    const auto text = read_regular_file(*real, max_conf_bytes);
    if (!text) return text.error();
    for (SlurmConfLine& line : parse_slurm_conf(*text)) {
        if (line.key != "include") {
            line.file = path;
            conf.lines.push_back(std::move(line));
            continue;
        }
        const auto next = included_path(line.value, path, conf);
        if (!next) return next.error();
        if (auto status = read_into(*next, conf, files); !status) return status;
    }
    return Done{};
}

}  // namespace

std::string lower_case(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](char c) {
        return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    return out;
}

std::vector<SlurmTextLine> slurm_text_lines(std::string_view text) {
    std::vector<SlurmTextLine> lines;
    std::string joined;
    std::size_t number = 0, first = 0;
    for (const std::string_view raw : split(text, '\n')) {
        ++number;
        if (first == 0) first = number;
        const std::string_view line = without_comment(raw);
        const std::size_t cut = continuation(line);
        joined += line.substr(0, cut);
        if (cut != std::string_view::npos) continue;
        lines.push_back({first, without_escapes(joined)});
        joined.clear();
        first = 0;
    }
    if (!joined.empty()) lines.push_back({first, without_escapes(joined)});
    return lines;
}

std::vector<SlurmConfLine> parse_slurm_conf(std::string_view text) {
    std::vector<SlurmConfLine> found;
    const auto add = [&](std::string key, std::string_view value) {
        if (!key.empty() && !value.empty())
            found.push_back({std::move(key), std::string(value), {}});
    };
    for (const SlurmTextLine& whole : slurm_text_lines(text)) {
        const std::string_view line = trim(whole.text);
        const std::size_t blank = line.find_first_of(" \t"), equals = line.find('=');
        if (blank != std::string_view::npos && lower_case(line.substr(0, blank)) == "include") {
            add("include", value_of(line.substr(blank)));
        } else if (equals != std::string_view::npos) {
            add(lower_case(trim(line.substr(0, equals))), value_of(line.substr(equals + 1)));
        }
    }
    return found;
}

const SlurmConfLine* SlurmConf::find(std::string_view key) const {
    const std::string wanted = lower_case(key);
    const auto at = std::find_if(lines.rbegin(), lines.rend(),
                                 [&](const auto& line) { return line.key == wanted; });
    return at == lines.rend() ? nullptr : &*at;
}

std::string SlurmConf::value(std::string_view key) const {
    const SlurmConfLine* line = find(key);
    return line == nullptr ? std::string() : line->value;
}

Result<SlurmConf> read_slurm_conf(const std::string& path) {
    SlurmConf conf;
    std::size_t files = 0;
    if (auto status = read_into(path, conf, files); !status) return status.error();
    return conf;
}

Result<std::string> read_slurm_user(const std::string& path) {
    const auto conf = read_slurm_conf(path);
    if (!conf) return conf.error();
    const std::string user = conf->value("slurmuser");
    return user.empty() ? std::string("root") : user;
}

}  // namespace arena
