// SPDX-License-Identifier: GPL-2.0-or-later
// See prolog_help.h.
#include "profiler/prolog_help.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/config.h"
#include "core/text.h"
#include "profiler/request.h"

namespace arena {
namespace {

constexpr uid_t nobody_uid = 65534;

/// SlurmUser may own the configuration, as slurmctld reads it; root, who asks, always.
uid_t owner_of_site(const std::string& slurm_user) {
    const struct passwd* user = slurm_user.empty() ? nullptr : ::getpwnam(slurm_user.c_str());
    return user == nullptr ? ::geteuid() : user->pw_uid;
}

Status check_service_user(const struct passwd& user, const std::string& slurm_user) {
    const std::string name = user.pw_name;
    if (user.pw_uid == 0 || user.pw_uid == nobody_uid)
        return environment_error("profile.user must not be root or nobody, it is " + name);
    if (name == slurm_user && ::geteuid() != user.pw_uid)
        return environment_error("profile.user must not be SlurmUser (" + name + ")");
    return Done{};
}

/// Ends before the carrier's time limit: the budget and 10 s to start and write, 5 s for the kill.
std::int64_t inner_limit_s(const Config& c) {
    return static_cast<std::int64_t>(
        std::max(1.0, std::min(std::ceil(c.profile_budget_s) + 10, c.profile_time_limit_s - 5)));
}

std::string last_line(const std::string& path) {
    const auto text = read_regular_file(path, 1 << 20);
    if (!text) return {};
    const auto lines = split(trim(*text), '\n');
    return lines.empty() ? std::string() : printable(trim(lines.back()), 160);
}

std::string why(const RunEnd& end, const std::string& about_file) {
    std::string text;
    if (end.exit_code == 124)
        text = "profiler timed out and was stopped";
    else if (end.exit_code == 137)
        text = "profiler was killed: it timed out and ignored SIGTERM, or memory ran out";
    else if (end.exit_code > 128 && end.exit_code < 160)
        text = std::string("profiler was killed: ") + ::strsignal(end.exit_code - 128);
    else if (end.exit_code == 75)
        text = "another profiler kept this host's lock";
    else if (end.exit_code == 0)
        text = "profiler wrote no usable result: " + about_file;
    else
        text = "profiler ended with exit code " + std::to_string(end.exit_code);
    if (const auto line = last_line(end.log_path); !line.empty()) text += ": " + line;
    return printable(text, 240);
}

bool same_word(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
        return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
    });
}

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

/// Lines as Slurm sees them: comments cut, continued ones joined, escapes resolved.
std::vector<std::string> logical_lines(std::string_view text) {
    std::vector<std::string> lines;
    std::string joined;
    for (const std::string_view raw : split(text, '\n')) {
        const std::string_view line = without_comment(raw);
        const std::size_t cut = continuation(line);
        joined += line.substr(0, cut);
        if (cut != std::string_view::npos) continue;
        lines.push_back(without_escapes(joined));
        joined.clear();
    }
    if (!joined.empty()) lines.push_back(without_escapes(joined));
    return lines;
}

/// One word, or what is in quotes.
std::string_view value_of(std::string_view text) {
    text = trim(text);
    if (text.starts_with('"'))
        if (const std::size_t end = text.find('"', 1); end != std::string_view::npos)
            return text.substr(1, end - 1);
    return text.substr(0, text.find_first_of(" \t\r"));
}

/// What the files read so far say.
struct SlurmConfFacts {
    std::string user = "root", cluster_name;
    int files = 0;
};

/// %c is ClusterName in lower case.
Result<std::filesystem::path> included_path(std::string name, const std::string& from,
                                            const SlurmConfFacts& facts) {
    for (std::size_t at = 0; (at = name.find("%c", at)) != std::string::npos;) {
        if (facts.cluster_name.empty())
            return environment_error("includes " + printable(name, 80) + " before it names a ClusterName", from);
        name.replace(at, 2, facts.cluster_name);
        at += facts.cluster_name.size();
    }
    std::filesystem::path path(name);
    return path.is_relative() ? std::filesystem::path(from).parent_path() / path : path;
}

/// Reads one file and, through it, what it includes; the last one named wins.
Status find_slurm_user(const std::string& path, SlurmConfFacts& facts) {
    constexpr int max_files = 64;
    if (++facts.files > max_files) return environment_error("includes more than 64 files, or itself", path);
    const auto text = read_regular_file(path, 1 << 20);
    if (!text) return text.error();
    for (const SlurmConfLine& line : parse_slurm_conf(*text)) {
        if (line.key == SlurmConfLine::Key::slurm_user) facts.user = line.value;
        if (line.key == SlurmConfLine::Key::cluster_name) {
            facts.cluster_name = line.value;
            for (char& c : facts.cluster_name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
        if (line.key != SlurmConfLine::Key::include) continue;
        const auto next = included_path(line.value, path, facts);
        if (!next) return next.error();
        if (auto s = find_slurm_user(*next, facts); !s) return s;
    }
    return Done{};
}

double spent_until_the_end(const RunEnd& end) {
    const auto text = read_regular_file(end.progress_path, 128);
    if (!text) return 0;
    const auto progress = parse_progress(*text);
    return progress ? progress->spent_s : 0;
}

Profile failed(const ProfileRequest& request, const RunEnd& end, const std::string& about_file) {
    Profile p;
    p.nonce = request.nonce;
    p.gpu_type = request.gpu_type;
    p.hardware = request.hardware;
    p.model_fingerprint = fingerprint(request.model);
    p.device.kind = "cpu";
    p.device.name = "unknown";
    p.device.node = host_name();
    p.status = ProfileStatus::failed;
    p.reason = why(end, about_file);
    p.device_seconds = spent_until_the_end(end);
    p.started_s =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    return p;
}

}  // namespace

std::vector<SlurmConfLine> parse_slurm_conf(std::string_view text) {
    using Key = SlurmConfLine::Key;
    std::vector<SlurmConfLine> found;
    const auto add = [&](Key key, std::string_view value) {
        if (!value.empty()) found.push_back({key, std::string(value)});
    };
    for (const std::string& whole : logical_lines(text)) {
        const std::string_view line = trim(whole);
        const std::size_t blank = line.find_first_of(" \t"), equals = line.find('=');
        if (blank != std::string_view::npos && same_word(line.substr(0, blank), "include")) {
            add(Key::include, value_of(line.substr(blank)));
            continue;
        }
        if (equals == std::string_view::npos) continue;
        const std::string_view key = trim(line.substr(0, equals));
        if (same_word(key, "slurmuser")) add(Key::slurm_user, value_of(line.substr(equals + 1)));
        if (same_word(key, "clustername")) add(Key::cluster_name, value_of(line.substr(equals + 1)));
    }
    return found;
}

Result<std::string> read_slurm_user(const std::string& slurm_conf) {
    SlurmConfFacts facts;
    if (auto s = find_slurm_user(slurm_conf, facts); !s) return s.error();
    return facts.user;
}

Result<std::string> site_facts(const std::string& path, const std::string& slurm_user) {
    const auto config = load_config(path, owner_of_site(slurm_user));
    if (!config) return config.error();
    const struct passwd* user = ::getpwnam(config->profile_user.c_str());
    if (user == nullptr)
        return environment_error(
            "profile.user '" + config->profile_user + "' does not exist on this node", path);
    if (auto s = check_service_user(*user, slurm_user); !s) return s.error();
    if (config->profile_spool.find('\n') != std::string::npos)
        return environment_error("profile.spool has a line break", path);
    const std::int64_t limit = inner_limit_s(*config);
    const auto time_limit = static_cast<std::int64_t>(config->profile_time_limit_s);
    const std::int64_t wait = std::max<std::int64_t>(0, time_limit - limit - 10);
    return config->profile_user + "\n" + std::to_string(user->pw_uid) + "\n" +
           std::to_string(user->pw_gid) + "\n" + config->profile_spool + "\n" +
           std::to_string(limit) + "\n" + std::to_string(wait) + "\n" + config->hardware_file +
           "\n";
}

Profile result_of_run(const ProfileRequest& request, const RunEnd& end) {
    const auto text = read_regular_file(end.part_path, max_profile_bytes);
    if (!text) return failed(request, end, text.error().text);
    auto profile = parse_profile(*text);
    if (!profile) return failed(request, end, profile.error().message());
    if (profile->nonce != request.nonce || profile->gpu_type != request.gpu_type ||
        profile->hardware != request.hardware ||
        profile->model_fingerprint != fingerprint(request.model))
        return failed(request, end, "it answers another request");
    return std::move(profile).value();
}

}  // namespace arena
