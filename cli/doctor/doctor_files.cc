// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`: arena.yaml, the service user, the profile spool and store, and the plug-in's
// socket: who owns them, who may read and write, and whether what is in them can be used.
#include <fmt/format.h>
#include <pwd.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/json.h"
#include "base/text.h"
#include "base/trusted_path.h"
#include "cli/common/ask.h"
#include "cli/doctor/doctor_parts.h"
#include "policy/arena/slurm_policies.h"
#include "store/store.h"

namespace arena::cli {
namespace {

// ---- arena.yaml
// -----------------------------------------------------------------------------------------

/// Root's, for whom nothing is wrong with it, and everybody's to read.
Remedy own_by_root(const Facts& facts, const std::string& path) {
    const std::string word = shell_word(path);
    struct stat info {};
    const bool is_directory = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    Remedy remedy{"chown root:root " + word, (is_directory ? "chmod 0755 " : "chmod 0644 ") + word};
    if (facts.host.controller || !facts.host.known)
        remedy.push_back(apply_command(Apply::reconfigure));
    return remedy;
}

std::vector<std::string> site_files(const Facts& facts) {
    std::vector<std::string> files{facts.config_path};
    if (!facts.config) return files;
    for (const std::string& file : {facts.config->hardware_file, facts.config->calibration_file})
        if (!file.empty()) files.push_back(file);
    return files;
}

/// What slurmctld and the Prolog read they must be able to trust: they refuse what others could
/// have changed. And SlurmUser and users' commands must be able to read it.
std::optional<Finding> check_file(const Facts& facts, const std::string& file) {
    const std::string name = "arena.yaml";
    if (const Status status = check_trusted(file, slurm_uid(facts)); !status) {
        const std::string &where = status.error().where,
                          way = where == file ? "" : "; on the way to " + file;
        return fail(name, status.error().message() + way, own_by_root(facts, where));
    }
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) return std::nullopt;
    const std::string user = slurm_user(facts);
    if (!user.empty() && !mode_allows(info, user, 4))
        return fail(name,
                    fmt::format("{} ({}): SlurmUser {} cannot read it: Arena is off", file,
                                owner_text(info), user),
                    own_by_root(facts, file));
    if ((info.st_mode & 0444) != 0444)
        return fail(name,
                    fmt::format("{} ({}): users' commands cannot read it", file, owner_text(info)),
                    own_by_root(facts, file));
    return std::nullopt;
}

std::vector<Finding> check_site_files(const Facts& facts) {
    for (const std::string& file : site_files(facts))
        if (auto finding = check_file(facts, file)) return {*finding};
    if (!facts.config) return {};
    const std::string& sum = facts.config_sum;
    if (!facts.controller_sum)
        return {ok("arena.yaml",
                   fmt::format("{} (sum {}; the same on all hosts)", facts.config_path, sum))};
    if (*facts.controller_sum == sum)
        return {ok("arena.yaml",
                   fmt::format("{} (sum {}, as on the controller)", facts.config_path, sum))};
    return {fail("arena.yaml",
                 fmt::format("{} has sum {}, that of the controller {}: estimates and profiles "
                             "here go by another text",
                             facts.config_path, sum, *facts.controller_sum),
                 {fmt::format("scp {0}:{1} {1}", facts.host.controller_name,
                              shell_word(facts.config_path))})};
}

/// A file that cannot be read at all, or has a mistake.
Finding check_text(const Facts& facts) {
    const Error& error = facts.config.error();
    const bool missing = ::access(facts.config_path.c_str(), F_OK) != 0 && errno == ENOENT;
    if (missing && facts.host.known && !facts.host.controller &&
        !facts.host.controller_name.empty())
        return fail("arena.yaml", error.message(),
                    {fmt::format("scp {0}:{1} {1}", facts.host.controller_name,
                                 shell_word(facts.config_path))});
    if (missing)
        return fail(
            "arena.yaml",
            error.message() + "; in the directory where slurm-arena was built:", {"make install"});
    return fail("arena.yaml", error.message());
}

// ---- the service user
// -----------------------------------------------------------------------------------

Finding check_user(const Facts& facts) {
    const std::string name = "service user", &user = facts.config->profile_user;
    const passwd* entry = ::getpwnam(user.c_str());
    if (entry == nullptr)
        return fail(
            name, user + " does not exist on this host: nothing is profiled",
            {"useradd --system --no-create-home --shell /usr/sbin/nologin " + shell_word(user)});
    if (entry->pw_uid == 0)
        return fail(name,
                    user + " is root, and refused; name another as profile.user in arena.yaml");
    if (user == slurm_user(facts)) {
        const bool alone = ::geteuid() == entry->pw_uid;
        const auto text =
            fmt::format("{} is also SlurmUser{}: profiles are not kept apart from Slurm", user,
                        alone ? " and the only user here" : "");
        return alone ? ok(name, text + "; good for a private cluster only")
                     : fail(name, text + "; name a user of its own as profile.user in arena.yaml");
    }
    return ok(name, fmt::format("{} (uid {})", user, entry->pw_uid));
}

// ---- directories
// ----------------------------------------------------------------------------------------

/// What is wrong with the owner and mode of a directory, for the users who need it; "" = nothing.
std::string fault_of(const DirectoryRule& rule, const struct stat& info) {
    if (!S_ISDIR(info.st_mode)) return "is not a directory";
    if (user_name(info.st_uid) != rule.owner)
        return "belongs to " + user_name(info.st_uid) + ", not to " + rule.owner;
    if ((info.st_mode & 0022) != 0) return "may be written to by others";
    if ((info.st_mode & 0700) != 0700) return "is closed to its owner";
    return {};
}

/// A directory that is not as it has to be; nothing when it is. `consequence`: what comes of it.
std::optional<Finding> check_directory(const std::string& name, const DirectoryRule& rule,
                                       const std::string& consequence, const Remedy& remedy) {
    struct stat info {};
    if (::lstat(rule.path.c_str(), &info) != 0) {
        if (errno == EACCES) return skip(name, rule.path + ": may not be looked at; run as root");
        return fail(name, fmt::format("{}: {}: {}", rule.path, std::strerror(errno), consequence),
                    remedy);
    }
    if (const std::string fault = fault_of(rule, info); !fault.empty())
        return fail(name,
                    fmt::format("{} {} ({}): {}", rule.path, fault, owner_text(info), consequence),
                    remedy);
    return std::nullopt;
}

/// Room to write a result in.
std::optional<Finding> check_room(const std::string& name, const std::string& path) {
    constexpr std::uint64_t least_bytes = std::uint64_t{16} << 20;
    struct statvfs info {};
    if (::statvfs(path.c_str(), &info) != 0) return std::nullopt;
    if ((info.f_flag & ST_RDONLY) != 0) return fail(name, path + " is mounted read-only");
    const std::uint64_t free_bytes = std::uint64_t{info.f_bavail} * info.f_frsize;
    if (free_bytes < least_bytes)
        return fail(name, fmt::format("{} is full ({} left): make room there", path,
                                      human_bytes(static_cast<double>(free_bytes))));
    return std::nullopt;
}

Finding check_spool(const Facts& facts) {
    const std::string name = "profile spool";
    const DirectoryRule rule = spool_rule(facts);
    const Remedy remedy{install_command(rule)};
    if (auto finding = check_directory(name, rule, "no result of a profile run arrives", remedy))
        return *finding;
    for (const std::string& user : {rule.owner, slurm_user(facts)})
        if (const std::string part = closed_way(rule.path, user); !part.empty())
            return fail(name, fmt::format("{}: {} may not enter {}", rule.path, user, part),
                        {"chmod a+x " + shell_word(part)});
    struct stat info {};
    if (::lstat(rule.path.c_str(), &info) != 0) return skip(name, rule.path + ": went away");
    const std::string reader = slurm_user(facts);
    if (!reader.empty() && !mode_allows(info, reader, 5))
        return fail(
            name,
            fmt::format("{} ({}): SlurmUser {} cannot read it: no result of a profile run arrives",
                        rule.path, owner_text(info), reader),
            remedy);
    if ((info.st_mode & 0007) != 0 && reader != rule.owner)
        return warn(name,
                    fmt::format("{} ({}): every user may read what models others train", rule.path,
                                owner_text(info)),
                    remedy);
    if (auto finding = check_room(name, rule.path)) return *finding;
    return ok(name, fmt::format("{} ({})", rule.path, owner_text(info)));
}

/// The file's own state: SQLite's check and ours.
Finding check_store_content(const std::string& path) {
    const std::string name = "profile store";
    const auto store = ProfileStore::open_read_only(path);
    const auto wrong = store ? (*store)->verify() : Result<std::vector<std::string>>(store.error());
    if (!wrong)
        return fail(name,
                    wrong.error().message() + "; it is moved away, and slurmctld begins a new one:",
                    {fmt::format("mv {0} {0}.away", shell_word(path)),
                     fmt::format("rm -f {0}-wal {0}-shm", shell_word(path)),
                     apply_command(Apply::reconfigure)});
    if (!wrong->empty())
        return fail(
            name,
            fmt::format("{}: {} bad rows, the first: {}", path, wrong->size(), wrong->front()),
            {"arena profile verify --remove", apply_command(Apply::reconfigure)});
    return ok(name, path);
}

Finding check_store(const Facts& facts) {
    const std::string name = "profile store", &path = facts.config->profile_store,
                      user = slurm_user(facts);
    const DirectoryRule rule = store_rule(facts);
    const Remedy remedy{install_command(rule), apply_command(Apply::reconfigure)};
    if (auto finding = check_directory(name, rule, "slurmctld cannot keep a profile", remedy))
        return *finding;
    if (const std::string part = closed_way(rule.path, user); !part.empty())
        return fail(name, fmt::format("{}: {} may not enter {}", path, user, part),
                    {"chmod a+x " + shell_word(part)});
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) {
        if (errno == EACCES) return skip(name, path + ": may not be looked at; run as root");
        if (auto finding = check_room(name, rule.path)) return *finding;
        return ok(name, path + ": not there yet, slurmctld makes it");
    }
    if (!S_ISREG(info.st_mode)) return fail(name, path + " is not a regular file");
    if (user_name(info.st_uid) != user || (info.st_mode & 07777) != 0600)
        return fail(name, fmt::format("{} ({}): is to be {}'s alone", path, owner_text(info), user),
                    {fmt::format("chown {}:{} {}", rule.owner, rule.group, shell_word(path)),
                     "chmod 0600 " + shell_word(path), apply_command(Apply::reconfigure)});
    if (auto finding = check_room(name, rule.path)) return *finding;
    if (::geteuid() != 0 && ::geteuid() != info.st_uid)
        return skip(name, path + ": may not be looked into; run as root");
    return check_store_content(path);
}

// ---- the plug-in's socket
// -------------------------------------------------------------------------------

std::string tmpfiles_command(const DirectoryRule& rule) {
    return fmt::format("echo 'd {} {:04o} {} {}' >/etc/tmpfiles.d/slurm-arena.conf", rule.path,
                       rule.mode, rule.owner, rule.group);
}

/// /run is new after each boot.
bool is_made_at_boot(const std::string& path) {
    for (const char* directory :
         {"/etc/tmpfiles.d", "/usr/lib/tmpfiles.d", "/usr/local/lib/tmpfiles.d"}) {
        const auto text = read_regular_file(std::string(directory) + "/slurm-arena.conf", 65536);
        if (text && text->find(path) != std::string::npos) return true;
    }
    return false;
}

/// Whether slurmctld goes by the arena.yaml that lies here.
Finding check_in_force(const Facts& facts) {
    const std::string name = "socket", &path = facts.config->socket;
    const auto answer = ask_socket(path, "config");
    const auto json = answer ? parse_json(*answer) : Result<Json>(environment_error("no answer"));
    if (!json || !json->is_object() || !json->contains("sum") || !json->at("sum").is_string())
        return ok(name, path + " answers");
    const auto word = [&](const char* key) {
        const auto at = json->find(key);
        return at != json->end() && at->is_string() ? printable(at->get<std::string>(), 500) : "";
    };
    const std::string file = word("path");
    const bool is_other = !file.empty() && file != facts.config_path;
    const std::string sums =
        fmt::format("sum {}, sum {} here", word("sum"), printable(facts.config_sum));
    if (is_other && word("sum") != facts.config_sum)
        return fail(name,
                    fmt::format("slurmctld reads {}, commands here {} ({}): set ARENA_CONF for "
                                "both, in slurmctld's unit too, or for neither",
                                file, facts.config_path, sums));
    if (word("sum") != facts.config_sum)
        return fail(name,
                    fmt::format("slurmctld goes by another text of {} than lies here ({})",
                                facts.config_path, sums),
                    {apply_command(Apply::reconfigure)});
    if (is_other)
        return warn(name, fmt::format("slurmctld reads {}, commands here {}: the same text now",
                                      file, facts.config_path));
    return ok(name, path + " answers");
}

Finding check_answer(const Facts& facts) {
    const std::string name = "socket", &path = facts.config->socket;
    const auto answer = ask_socket(path, "stats");
    if (!answer)
        return fail(name, answer.error().message() + "; slurmctld's log says why",
                    {apply_command(Apply::reconfigure)});
    if (answer->find('{') == std::string::npos)
        return fail(name, path + ": the plug-in runs but is off; slurmctld's log says why",
                    {apply_command(Apply::reconfigure)});
    return check_in_force(facts);
}

Finding check_socket(const Facts& facts) {
    const std::string name = "socket";
    const DirectoryRule rule = socket_rule(facts);
    Remedy remedy{install_command(rule), apply_command(Apply::reconfigure)};
    const bool under_run = rule.path.starts_with("/run/") || rule.path.starts_with("/var/run/");
    const bool lost_at_boot = under_run && !is_made_at_boot(rule.path);
    if (lost_at_boot) remedy.insert(remedy.begin(), tmpfiles_command(rule));
    if (auto finding = check_directory(name, rule,
                                       "arena explain, queue and stats have nobody to ask", remedy))
        return *finding;
    if (facts.host.standby)
        return skip(name, "this slurmctld stands by: the one in charge, on " +
                              facts.host.controller_name + ", has the plug-in that answers");
    Finding finding = check_answer(facts);
    if (finding.verdict == Verdict::ok && lost_at_boot)
        return warn(name, rule.path + " will be gone after the next boot",
                    {tmpfiles_command(rule)});
    return finding;
}

}  // namespace

std::vector<Finding> check_config(const Facts& facts) {
    std::vector<Finding> found = check_site_files(facts);
    if (!facts.config) {
        if (found.empty()) found.push_back(check_text(facts));
        return found;
    }
    const std::string& name = facts.config->policy;
    const Policy* policy = find_slurm_policy(name);
    found.push_back(
        policy ? ok("policy", name)
               : fail("policy",
                      name + " is no policy of sched/arena; accepted: " + slurm_policy_names(),
                      set_in_arena_yaml(facts, "policy", "arena")));
    if (!facts.config->enabled)
        found.push_back(fail("enabled", "is false: Arena jobs stay held",
                             set_in_arena_yaml(facts, "enabled", "true")));
    if (!facts.hardware) found.push_back(fail("hardware", facts.hardware.error().message()));
    return found;
}

std::vector<Finding> check_profile_files(const Facts& facts) {
    if (!facts.config) return {};
    if (!facts.config->profile_enabled) return {skip("profiling", "profile.enabled is false")};
    std::vector<Finding> found{check_user(facts)};
    const HostRole& host = facts.host;
    const bool anywhere = !host.known;
    if (host.controller || host.compute || anywhere) found.push_back(check_spool(facts));
    if (host.controller || anywhere) found.push_back(check_store(facts));
    return found;
}

std::vector<Finding> check_controller(const Facts& facts) {
    if (!facts.config || !facts.host.controller) return {};
    if (!facts.slurm_config) return {skip("socket", "slurmctld does not answer")};
    return {check_socket(facts)};
}

}  // namespace arena::cli
