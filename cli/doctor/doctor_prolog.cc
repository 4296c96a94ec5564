// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`: the Prolog, without which no profile is ever taken and with a wrong one of which
// the node drains. Its files are looked at where they are run: on a compute node.
#include <fmt/format.h>
#include <glob.h>
#include <pwd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "base/trusted_path.h"
#include "cli/common/ask.h"
#include "cli/doctor/doctor_parts.h"
#include "site/config_place.h"
#include "site/config_sum.h"

namespace arena::cli {
namespace {

constexpr const char* prolog_name = "Prolog";

std::string our_prolog(const Facts& facts) { return facts.libexec_dir + "/arena-prolog"; }

/// Slurm takes a Prolog as a pattern.
std::vector<std::string> files_of(const std::string& pattern) {
    glob_t matches{};
    std::vector<std::string> files;
    if (::glob(pattern.c_str(), 0, nullptr, &matches) == 0)
        for (std::size_t i = 0; i < matches.gl_pathc; ++i) files.emplace_back(matches.gl_pathv[i]);
    ::globfree(&matches);
    return files;
}

/// Ours, a link to it, or a wrapper that names it.
bool runs_ours(const std::string& file) {
    std::error_code missing;
    const auto real = std::filesystem::canonical(file, missing);
    if (missing) return false;
    if (real.filename() == "arena-prolog") return true;
    const auto text = read_regular_file(real, std::size_t{1} << 20);
    return text && text->find("arena-prolog") != std::string::npos;
}

/// A Prolog of the site's own stays: both go into one directory.
Remedy run_both(const Facts& facts, const std::vector<std::string>& theirs) {
    const std::string directory =
        std::filesystem::path(facts.slurm_conf_path).parent_path() / "prolog.d";
    Remedy remedy{"install -d " + shell_word(directory)};
    std::string files = shell_word(our_prolog(facts));
    for (const std::string& file : theirs) files += " " + shell_word(file);
    remedy.push_back(fmt::format("ln -s {} {}", files, shell_word(directory + "/")));
    for (std::string& line :
         set_in_slurm_conf(facts, prolog_name, directory + "/*", Apply::reconfigure))
        remedy.push_back(std::move(line));
    return remedy;
}

Remedy run_ours(const Facts& facts) {
    return set_in_slurm_conf(facts, prolog_name, our_prolog(facts), Apply::reconfigure);
}

bool mounted_noexec(const std::string& file) {
    struct statvfs info {};
    return ::statvfs(file.c_str(), &info) == 0 && (info.f_flag & ST_NOEXEC) != 0;
}

/// From mountinfo: the last mount on the longest way to it (two may have one device: bind mounts).
std::string mount_point_of(const std::string& path) {
    std::error_code missing;
    const std::string real = std::filesystem::canonical(path, missing).string() + "/";
    std::ifstream mounts("/proc/self/mountinfo");
    std::string line, found = "/";
    while (std::getline(mounts, line)) {
        const auto words = split(line, ' ');
        if (words.size() < 5) continue;
        const std::string point(words[4]);
        if (point.size() >= found.size() && real.starts_with(point == "/" ? point : point + "/"))
            found = point;
    }
    return found;
}

/// A file that slurmd, as root, is to run: there, executable, and nobody else's to change.
std::optional<Finding> check_file(const std::string& file, uid_t slurmd_uid) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) return std::nullopt;  // told by the caller
    if (mounted_noexec(file))
        return fail(prolog_name,
                    file + " lies on a file system mounted noexec: each job drains its node",
                    {"mount -o remount,exec " + shell_word(mount_point_of(file))});
    if ((info.st_mode & 0111) == 0 || (info.st_mode & 0500) != 0500)
        return fail(prolog_name,
                    fmt::format("{} cannot be executed ({}): each job drains its node", file,
                                owner_text(info)),
                    {"chmod 0755 " + shell_word(file)});
    if (const Status status = check_trusted(file, slurmd_uid); !status)
        return fail(prolog_name, status.error().message(),
                    {"chown root:root " + shell_word(status.error().where),
                     "chmod go-w " + shell_word(status.error().where)});
    return std::nullopt;
}

std::string slurmd_user(const Facts& facts) {
    const std::string user = wanted_value(facts, "SlurmdUser");
    const std::string word = user.substr(0, user.find('('));
    return word.empty() ? "root" : word;
}

uid_t slurmd_uid(const Facts& facts) {
    const passwd* entry = ::getpwnam(slurmd_user(facts).c_str());
    return entry != nullptr ? entry->pw_uid : 0;
}

/// The arena.yaml that the Prolog reads: what its wrapper sets, else by the one rule; "" = not
/// known.
std::string prolog_config(const Facts& facts, const std::vector<std::string>& files) {
    constexpr std::string_view word = "ARENA_CONF=";
    for (const std::string& file : files) {
        std::error_code missing;
        const auto real = std::filesystem::canonical(file, missing);
        if (missing || real.filename() == "arena-prolog") continue;
        const auto text = read_regular_file(real, std::size_t{1} << 20);
        const std::size_t at = text ? text->find(word) : std::string::npos;
        if (at == std::string::npos) continue;
        std::string_view value = std::string_view(*text).substr(at + word.size());
        value = value.substr(0, value.find_first_of(" \t\n;"));
        const bool is_quoted = value.size() > 1 && (value.front() == '"' || value.front() == '\'');
        if (is_quoted) value = value.substr(1, value.find(value.front(), 1) - 1);
        return value.find('$') == std::string_view::npos ? std::string(value) : std::string();
    }
    return facts.slurmd_config_path;
}

/// Where the Prolog and the commands read different texts, nodes measure by one and slurmctld plans
/// by the other.
std::optional<Finding> check_config_read(const Facts& facts,
                                         const std::vector<std::string>& files) {
    const std::string path = prolog_config(facts, files);
    if (path.empty() || path == facts.config_path) return std::nullopt;
    const auto sum = config_sum(path);
    if (sum && *sum == facts.config_sum) return std::nullopt;
    return fail(prolog_name,
                fmt::format("it reads {} ({}), commands and slurmctld {} (sum {}): one rule says "
                            "which, ARENA_CONF, else the arena.yaml beside slurm.conf; set "
                            "ARENA_CONF for slurmd, slurmctld and users, or for none of them",
                            path, sum ? "sum " + *sum : sum.error().message(), facts.config_path,
                            facts.config_sum),
                {fmt::format("cp {} {}", shell_word(facts.config_path), shell_word(path))});
}

/// Of /proc, too, whose files have no length.
std::optional<std::string> read_text(const std::string& file) {
    std::ifstream in(file);
    std::string text(std::size_t{1} << 20, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    if (text.empty()) return std::nullopt;
    return text;
}

/// On a compute node: what `value` leads to.
Finding check_on_node(const Facts& facts, const std::string& value) {
    const std::vector<std::string> files = files_of(value);
    if (files.empty())
        return fail(prolog_name, value + " is not on this node: its first job drains it",
                    ::access(our_prolog(facts).c_str(), F_OK) == 0 ? run_ours(facts)
                                                                   : Remedy{"make install"});
    for (const std::string& file : files)
        if (auto finding = check_file(file, slurmd_uid(facts))) return *finding;
    if (std::none_of(files.begin(), files.end(), runs_ours))
        return fail(prolog_name, value + " does not run arena-prolog: nothing is profiled",
                    run_both(facts, files));
    if (auto finding = check_config_read(facts, files)) return *finding;
    return ok(prolog_name, value);
}

/// What the Prolog itself does first, as it does it. Errors are in its words.
Finding check_helper(const Facts& facts) {
    const std::string check = "arena-profiler", tool = facts.libexec_dir + "/arena-profiler";
    if (::access(tool.c_str(), F_OK) != 0)
        return fail(
            check,
            tool +
                " is missing: nothing is profiled; in the directory where slurm-arena was built:",
            {"make install"});
    const auto answer = run_program({tool, "ops", "--model", "gpt2", "--batch", "8"});
    if (!answer) return fail(check, answer.error().message());
    if (answer->status == 0) return ok(check, tool);
    const std::string_view text = trim(answer->err);
    return fail(check, "cannot run: " + printable(text.substr(0, text.find('\n')), 200));
}

/// Only root may become the service user.
std::optional<Finding> check_slurmd_user(const Facts& facts) {
    const std::string user = slurmd_user(facts);
    if (user == "root" || user == facts.config->profile_user) return std::nullopt;
    return fail(prolog_name,
                fmt::format("SlurmdUser is {}, who cannot run the profiler as {}", user,
                            facts.config->profile_user),
                set_in_slurm_conf(facts, "SlurmdUser", "root", Apply::restart_slurmd));
}

Finding check_value(const Facts& facts) {
    const std::string value = wanted_value(facts, prolog_name),
                      running = running_value(facts, prolog_name);
    if (value.empty() && facts.slurm_config && !running.empty() && !facts.host.controller)
        return ok(prolog_name, running + " (slurmctld's; slurm.conf here has none)");
    if (value.empty())
        return fail(prolog_name, "none in slurm.conf: nothing is ever profiled", run_ours(facts));
    Finding finding = facts.host.compute
                          ? check_on_node(facts, value)
                          : ok(prolog_name, value + " (its file is looked at on compute nodes)");
    if (finding.verdict == Verdict::ok && facts.slurm_config && running != value)
        return fail(prolog_name,
                    fmt::format("slurm.conf says {}, slurmctld still runs with {}", value,
                                running.empty() ? "none" : running),
                    on_controller(facts, {apply_command(Apply::reconfigure)}));
    return finding;
}

}  // namespace

std::string slurmd_config_path(const Facts& facts) {
    std::string file = wanted_value(facts, "SlurmdPidFile");
    if (file.empty()) file = "/var/run/slurmd.pid";
    if (file.find('%') != std::string::npos) return {};  // several slurmds on a host
    const auto pid = read_text(file);
    const auto environment = pid ? read_text("/proc/" + std::string(trim(*pid)) + "/environ") : pid;
    if (!environment) return {};
    std::string arena_conf, slurm_conf = facts.slurm_conf_path;
    for (const std::string_view entry : split(*environment, '\0')) {
        if (entry.starts_with("ARENA_CONF=")) arena_conf = entry.substr(11);
        if (entry.starts_with("SLURM_CONF=")) slurm_conf = entry.substr(11);
    }
    return config_path_of(arena_conf.c_str(), slurm_conf.c_str());
}

std::vector<Finding> check_prolog(const Facts& facts) {
    if (!facts.config || !facts.config->profile_enabled) return {};
    if (!facts.slurm_conf && !facts.slurm_config) return {};
    std::vector<Finding> found;
    if (auto finding = check_slurmd_user(facts)) found.push_back(*finding);
    found.push_back(check_value(facts));
    if (facts.host.compute) found.push_back(check_helper(facts));
    return found;
}

}  // namespace arena::cli
