// SPDX-License-Identifier: GPL-2.0-or-later
// The checks of `arena doctor`: see doctor.h. A check that cannot be made says why (skip) and is not
// counted as bad: a login node has no spool, a build host no slurmctld.
#include "cli/doctor.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "core/plugin_dir.h"
#include "core/text.h"
#include "core/trusted_path.h"
#include "planner/planner.h"
#include "policy/policy.h"

namespace arena::cli {
namespace {

Finding ok(std::string check, std::string text) {
    return {std::move(check), Verdict::ok, std::move(text)};
}
Finding bad(std::string check, std::string text) {
    return {std::move(check), Verdict::bad, std::move(text)};
}
Finding skip(std::string check, std::string text) {
    return {std::move(check), Verdict::skip, std::move(text)};
}

std::string value_of(const std::map<std::string, std::string>& fields, const std::string& key) {
    const auto at = fields.find(key);
    return at == fields.end() || at->second == "(null)" ? std::string() : at->second;
}

/// "slurm(64030)" -> "slurm"
std::string slurm_user(const std::map<std::string, std::string>& fields) {
    const std::string user = value_of(fields, "SlurmUser");
    return user.substr(0, user.find('('));
}

std::string user_name(uid_t uid) {
    const passwd* entry = ::getpwuid(uid);
    return entry != nullptr ? entry->pw_name : fmt::format("uid {}", uid);
}

/// The caller where slurm.conf cannot be read: files of his own then pass.
uid_t slurm_uid(const Facts& facts) {
    if (!facts.slurm_config) return ::geteuid();
    const passwd* entry = ::getpwnam(slurm_user(*facts.slurm_config).c_str());
    return entry != nullptr ? entry->pw_uid : 0;
}

/// What slurmctld reads it must be able to trust: it refuses what others could have changed.
Finding check_files(const Facts& facts) {
    const Config& config = *facts.config;
    for (const std::string& file : {facts.config_path, config.hardware_file, config.calibration_file}) {
        if (file.empty()) continue;
        if (const Status status = check_trusted(file, slurm_uid(facts)); !status)
            return bad("arena.yaml", status.error().message() + (file == status.error().where
                                                                    ? std::string()
                                                                    : "; on the way to " + file));
    }
    return ok("arena.yaml", facts.config_path);
}

std::string mode_text(const struct stat& info) { return fmt::format("{:04o}", info.st_mode & 07777); }

Finding check_spool(const Config& config) {
    const std::string name = "profile spool", &path = config.profile_spool;
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) {
        if (errno == EACCES) return skip(name, path + ": may not be looked at; run as root");
        return bad(name, fmt::format("{}: {}; create it: install -d -m 0750 -o {} {}", path,
                                     std::strerror(errno), config.profile_user, path));
    }
    if (!S_ISDIR(info.st_mode)) return bad(name, path + " is not a directory");
    const std::string owner = user_name(info.st_uid);
    if (owner != config.profile_user) {
        return bad(name, fmt::format("{} belongs to {}; chown it to {}", path, owner, config.profile_user));
    }
    if ((info.st_mode & 0022) != 0) {
        return bad(name, fmt::format("{} has mode {}, others may write; chmod 0750 {}", path,
                                     mode_text(info), path));
    }
    return ok(name, fmt::format("{}, {}, mode {}", path, owner, mode_text(info)));
}

Finding check_store(const Config& config, const std::string& owner_wanted) {
    const std::string name = "profile store", &path = config.profile_store;
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) {
        if (errno == EACCES) return skip(name, path + ": may not be looked at; run as SlurmUser or root");
        const std::string parent = path.substr(0, path.rfind('/') + 1);
        if (errno == ENOENT && ::access(parent.c_str(), F_OK) == 0) {
            return skip(name, path + ": the scheduler creates it when it starts");
        }
        return bad(name, fmt::format("{}: {}; create the directory for SlurmUser with mode 0700", path,
                                     std::strerror(errno)));
    }
    if (!S_ISREG(info.st_mode)) return bad(name, path + " is not a regular file");
    const std::string owner = user_name(info.st_uid);
    if (!owner_wanted.empty() && owner != owner_wanted) {
        return bad(name, fmt::format("{} belongs to {}; chown it to {} (SlurmUser)", path, owner,
                                     owner_wanted));
    }
    if ((info.st_mode & 07777) != 0600) {
        return bad(name, fmt::format("{} has mode {}; chmod 0600 {}", path, mode_text(info), path));
    }
    return ok(name, fmt::format("{}, {}, mode 0600", path, owner));
}

Finding check_user(const Config& config, const std::string& slurm_user_name) {
    const std::string name = "service user", &user = config.profile_user;
    const passwd* entry = ::getpwnam(user.c_str());
    if (entry == nullptr) {
        return bad(name, fmt::format("{} does not exist; useradd --system {} on every node, or set "
                                     "profile.user",
                                     user, user));
    }
    if (entry->pw_uid == 0) return bad(name, user + " is root; set profile.user to another user");
    if (user == slurm_user_name) {
        const bool alone = ::geteuid() == entry->pw_uid;
        const auto text = fmt::format("{} is also SlurmUser{}: profiles are not kept apart from Slurm", user,
                                      alone ? " and the only user here" : "");
        return alone ? ok(name, text + "; good for a private cluster only")
                     : bad(name, text + "; set profile.user to a user of its own");
    }
    return ok(name, fmt::format("{} (uid {})", user, entry->pw_uid));
}

Finding check_version(const Facts& facts) {
    const std::string name = "Slurm version", built = ARENA_SLURM_VERSION;
    if (!facts.slurm_version) return skip(name, facts.slurm_version.error().message());
    if (built == "none") return skip(name, "this build has no Slurm plug-ins");
    if (*facts.slurm_version == built) return ok(name, built + ", as the plug-ins were built for");
    return bad(name, fmt::format("{} runs, the plug-ins were built for {}; rebuild them against {}",
                                 *facts.slurm_version, built, *facts.slurm_version));
}

std::vector<std::string> words(std::string_view text, char separator) {
    std::vector<std::string> out;
    for (const std::string_view part : split(text, separator)) {
        if (!trim(part).empty()) out.emplace_back(trim(part));
    }
    return out;
}

/// A directory that PluginDir names and that is missing is fatal to every Slurm client.
Finding check_plugin_dirs(const std::vector<std::string>& directories) {
    for (const std::string& directory : directories) {
        struct stat info {};
        if (::stat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
            return bad("PluginDir", fmt::format("{} is not here: every Slurm client on this host fails; "
                                                "create it or take it out of PluginDir",
                                                directory));
        }
    }
    return ok("PluginDir", join(directories, ":"));
}

Finding check_plugin_files(const std::vector<std::string>& directories) {
    std::vector<std::string> missing;
    for (const char* file : {"sched_arena.so", "job_submit_arena.so", "spank_arena.so"}) {
        const bool found = std::any_of(directories.begin(), directories.end(), [&](const auto& dir) {
            return ::access(fmt::format("{}/{}", dir, file).c_str(), R_OK) == 0;
        });
        if (!found) missing.emplace_back(file);
    }
    if (missing.empty()) return ok("plug-in files", "sched_arena, job_submit_arena, spank_arena");
    return bad("plug-in files", fmt::format("{} not in any directory of PluginDir; install slurm-arena and "
                                            "add its directory to PluginDir",
                                            join(missing, ", ")));
}

Finding check_scheduler_type(const std::map<std::string, std::string>& fields) {
    const std::string type = value_of(fields, "SchedulerType");
    if (type == "sched/arena") return ok("SchedulerType", type);
    // Sites with heterogeneous jobs keep the name and put our plug-in in front of PluginDir.
    if (type == "sched/backfill" && stands_in_for_backfill(value_of(fields, "PluginDir")).value_or(false)) {
        return ok("SchedulerType", type + ", with Arena's plug-in under that name");
    }
    return bad("SchedulerType", fmt::format("{}; set SchedulerType=sched/arena", type));
}

Finding check_job_submit(const std::map<std::string, std::string>& fields) {
    const std::vector<std::string> plugins = words(value_of(fields, "JobSubmitPlugins"), ',');
    const auto at = std::find(plugins.begin(), plugins.end(), "arena");
    if (at == plugins.end()) return bad("JobSubmitPlugins", "arena is not listed; add it as the last one");
    if (at + 1 != plugins.end()) return bad("JobSubmitPlugins", "arena must be the last one");
    return ok("JobSubmitPlugins", join(plugins, ","));
}

Finding check_prolog_flags(const std::map<std::string, std::string>& fields) {
    const std::vector<std::string> flags = words(value_of(fields, "PrologFlags"), ',');
    const bool alloc = std::any_of(flags.begin(), flags.end(), [](const std::string& flag) {
        return flag == "Alloc" || flag == "Contain" || flag == "X11";  // the latter two imply Alloc
    });
    if (alloc) return ok("PrologFlags", join(flags, ","));
    return bad("PrologFlags", "set PrologFlags=Alloc: profiles are taken when a carrier job is allocated");
}

Finding check_requeue(const std::map<std::string, std::string>& fields, std::int64_t code) {
    const std::string list = value_of(fields, "RequeueExitHold");
    if (list_has_code(list, code)) return ok("RequeueExitHold", list);
    return bad("RequeueExitHold", fmt::format("{} has no {}; add it, or elastic jobs cannot be resized",
                                              list.empty() ? "(empty)" : list, code));
}

/// A profile is taken inside a Prolog, which Slurm must not cut off, and while a batch job starts, which
/// Slurm must not give up: either drains the node or fails the carrier. The Prolog itself ends at the
/// latest 20 s after profile.time_limit_s.
Finding check_prolog_time(const std::map<std::string, std::string>& fields, const Config& config,
                          const std::string& key) {
    constexpr double margin_s = 20;
    const double needed_s = config.profile_time_limit_s + margin_s;
    const std::string text = value_of(fields, key);
    const auto seconds = parse_integer(text.substr(0, text.find(' ')), 0, INT64_MAX);  // "400 sec"
    if (!seconds) return skip(key, fmt::format("'{}' is not a number of seconds", text));
    if (key == "PrologEpilogTimeout" && (*seconds == 0 || *seconds == 65534)) return ok(key, "no limit");
    if (static_cast<double>(*seconds) >= needed_s) return ok(key, fmt::format("{} s", *seconds));
    return bad(key, fmt::format("{} s is too short for profile.time_limit_s {:g}: set {} to {:.0f} or more, "
                                "or lower profile.time_limit_s",
                                *seconds, config.profile_time_limit_s, key, std::ceil(needed_s)));
}

}  // namespace

std::string_view to_string(Verdict verdict) {
    switch (verdict) {
        case Verdict::ok: return "ok";
        case Verdict::bad: return "bad";
        case Verdict::skip: return "skip";
    }
    return "?";
}

std::string parse_slurm_version(std::string_view text) {
    const std::string_view line = trim(text.substr(0, text.find('\n')));
    return std::string(line.substr(line.rfind(' ') + 1));
}

std::vector<std::string> parse_gres_types(std::string_view text) {
    std::set<std::string> types;
    for (const std::string_view line : split(text, '\n')) {
        const std::string_view field = trim(line);
        if (!field.starts_with("Gres=")) continue;
        for (const std::string_view gres : split(field.substr(5), ',')) {
            const auto parts = split(gres.substr(0, gres.find('(')), ':');
            if (parts.front() != "gpu") continue;
            types.emplace(parts.size() > 2 ? parts[1] : std::string_view());
        }
    }
    return {types.begin(), types.end()};
}

bool list_has_code(std::string_view list, std::int64_t code) {
    for (const std::string_view part : split(list, ',')) {
        const std::size_t dash = part.find('-');
        const auto first = parse_integer(trim(part.substr(0, dash)), 0, 255);
        const auto last = dash == std::string_view::npos
                              ? first
                              : parse_integer(trim(part.substr(dash + 1)), 0, 255);
        if (first && last && code >= *first && code <= *last) return true;
    }
    return false;
}

std::vector<Finding> check_config(const Facts& facts) {
    if (!facts.config) return {bad("arena.yaml", facts.config.error().message())};
    std::vector<Finding> found{check_files(facts)};
    const std::string& name = facts.config->policy;
    const Policy* policy = find_policy(name);
    found.push_back(policy && policy->in_slurm
                        ? ok("policy", name)
                        : bad("policy", name + " is no policy of sched/arena; accepted: " + slurm_policy_names()));
    if (!facts.config->enabled) found.push_back(bad("enabled", "is false: Arena jobs stay held"));
    if (!facts.hardware) found.push_back(bad("hardware", facts.hardware.error().message()));
    return found;
}

std::vector<Finding> check_profile_files(const Facts& facts) {
    if (!facts.config) return {};
    const Config& config = *facts.config;
    if (!config.profile_enabled) return {skip("profiling", "profile.enabled is false")};
    const std::string slurm = facts.slurm_config ? slurm_user(*facts.slurm_config) : std::string();
    return {check_user(config, slurm), check_spool(config), check_store(config, slurm)};
}

std::vector<Finding> check_slurm(const Facts& facts) {
    std::vector<Finding> found{check_version(facts)};
    if (!facts.slurm_config) {
        found.push_back(skip("slurm.conf", facts.slurm_config.error().message()));
        return found;
    }
    const auto& fields = *facts.slurm_config;
    const std::vector<std::string> directories = words(value_of(fields, "PluginDir"), ':');
    found.push_back(check_plugin_dirs(directories));
    found.push_back(check_plugin_files(directories));
    found.push_back(check_scheduler_type(fields));
    found.push_back(check_job_submit(fields));
    found.push_back(check_prolog_flags(fields));
    if (!facts.config) return found;
    found.push_back(check_requeue(fields, facts.config->requeue_exit_code));
    if (facts.config->profile_enabled)
        for (const char* key : {"PrologEpilogTimeout", "BatchStartTimeout"})
            found.push_back(check_prolog_time(fields, *facts.config, key));
    return found;
}

std::vector<Finding> check_gres(const Facts& facts) {
    if (!facts.config) return {};
    if (!facts.gres_types) return {skip("GPU types", facts.gres_types.error().message())};
    if (facts.gres_types->empty()) return {bad("GPU types", "no node has a GPU")};
    std::vector<Finding> found;
    const auto& mappings = facts.config->gpu_types;
    for (const std::string& type : *facts.gres_types) {
        const std::string name = "gpu:" + type;
        const auto at = std::find_if(mappings.begin(), mappings.end(),
                                     [&](const GpuMapping& m) { return m.gres_type == type; });
        if (type.empty()) {
            found.push_back(bad("gpu", "a node has GPUs without a type, which are never offered; "
                                       "give them a Type in gres.conf"));
        } else if (at == mappings.end()) {
            found.push_back(bad(name, fmt::format("has no hardware entry and is never offered; add "
                                                  "\"{}: ENTRY\" to gpu_types",
                                                  type)));
        } else if (facts.hardware) {
            const auto entry = find_hardware(*facts.hardware, at->hardware);
            found.push_back(!entry ? bad(name, entry.error().message())
                                   : ok(name, entry->emulated ? entry->name + " (emulated by this CPU)"
                                                              : entry->name));
        }
    }
    return found;
}

}  // namespace arena::cli
