// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`: what slurm.conf says, and what slurmctld runs with. A line is judged as the file
// has it; a file that is right and a slurmctld that runs with something else was not restarted (or
// is read from another file).
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text.h"
#include "base/user_file.h"
#include "cli/doctor/doctor_parts.h"
#include "installed_paths.h"
#include "site/plugin_dir.h"
#include "site/plugin_version.h"

namespace arena::cli {
namespace {

struct Fault {
    std::string text;    ///< what is wrong with the value
    std::string wanted;  ///< the value to set; "" = none can be told
};
using Judge = std::function<std::optional<Fault>(const std::string& value)>;

std::string shown(const std::string& value) {
    return value.empty() ? "(none)" : printable(value, 200);
}

std::vector<std::string> words(std::string_view text, char separator) {
    std::vector<std::string> out;
    for (const std::string_view part : split(text, separator))
        if (!trim(part).empty()) out.emplace_back(trim(part));
    return out;
}

bool is_directory(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool has_file(const std::string& directory, const char* file) {
    return ::access(fmt::format("{}/{}", directory, file).c_str(), F_OK) == 0;
}

/// A login node's own file is wrong where slurmctld's is right.
Remedy copy_from_controller(const Facts& facts) {
    const std::string file = shell_word(facts.slurm_conf_path);
    return {fmt::format("scp {0}:{1} {1}", facts.host.controller_name, file)};
}

/// One line of slurm.conf: the file's value, then slurmctld's.
Finding check_line(const Facts& facts, const std::string& key, Apply apply, const Judge& judge) {
    const std::string value = wanted_value(facts, key), running = running_value(facts, key);
    const auto fault = judge(value);
    const bool runs_well = facts.slurm_config && !judge(running);
    if (fault && runs_well && !facts.host.controller && !facts.host.controller_name.empty())
        return fail(key, fault->text + "; slurmctld runs with another slurm.conf",
                    copy_from_controller(facts));
    if (fault)
        return fail(
            key, fault->text,
            fault->wanted.empty() ? Remedy() : set_in_slurm_conf(facts, key, fault->wanted, apply));
    if (facts.slurm_config && !runs_well)
        return fail(key,
                    fmt::format("slurm.conf says {}, slurmctld still runs with {}", shown(value),
                                shown(running)),
                    on_controller(facts, {apply_command(apply)}));
    return ok(key, shown(value));
}

// ---- PluginDir
// ------------------------------------------------------------------------------------------

/// PluginDir as step 5 of INSTALL.md has it: ours, then those of the value that are there.
std::string mended_plugin_dir(const Facts& facts, const std::string& value) {
    std::vector<std::string> directories{facts.plugin_dir};
    for (const std::string& directory : words(value, ':'))
        if (is_directory(directory) && !has_file(directory, "spank_arena.so"))
            directories.push_back(directory);
    return join(directories, ":");
}

/// A directory that PluginDir names and that is missing is fatal to every Slurm command of the
/// host.
Finding check_plugin_dirs(const Facts& facts, const std::string& value) {
    for (const std::string& directory : words(value, ':')) {
        if (is_directory(directory)) continue;
        const std::string text =
            directory + " is not on this host: every command of Slurm fails here";
        if (directory == facts.plugin_dir)
            return fail("PluginDir",
                        text + "; in the directory where slurm-arena was built:", {"make install"});
        if (facts.host.controller)
            return fail("PluginDir", text,
                        set_in_slurm_conf(facts, "PluginDir", mended_plugin_dir(facts, value),
                                          Apply::restart_slurmctld));
        return fail("PluginDir", text + "; install slurm-arena in it, as on the controller");
    }
    return ok("PluginDir", value);
}

std::vector<std::string> missing_files(const std::vector<std::string>& directories) {
    std::vector<std::string> missing;
    for (const char* file : {"sched_arena.so", "job_submit_arena.so", "spank_arena.so"})
        if (std::none_of(directories.begin(), directories.end(),
                         [&](const auto& d) { return has_file(d, file); }))
            missing.emplace_back(file);
    return missing;
}

/// What no directory of PluginDir has: because ours is not named there, or because it is not all
/// there.
Finding check_plugin_files(const Facts& facts, const std::string& value) {
    const auto missing = missing_files(words(value, ':'));
    if (missing.empty()) return ok("plug-in files", "sched_arena, job_submit_arena, spank_arena");
    const std::string text = join(missing, ", ") + " in no directory of PluginDir";
    if (!missing_files({facts.plugin_dir}).empty())
        return fail("plug-in files",
                    text + "; in the directory where slurm-arena was built:", {"make install"});
    return fail("plug-in files", text,
                set_in_slurm_conf(facts, "PluginDir", mended_plugin_dir(facts, value),
                                  Apply::restart_slurmctld));
}

bool plugins_are_found(const std::string& plugin_dir) {
    return missing_files(words(plugin_dir, ':')).empty();
}

std::vector<Finding> check_plugins(const Facts& facts) {
    const std::string value = wanted_value(facts, "PluginDir");
    std::vector<Finding> found{check_plugin_dirs(facts, value)};
    if (found.front().verdict == Verdict::ok) found.push_back(check_plugin_files(facts, value));
    const std::string running = running_value(facts, "PluginDir");
    if (facts.slurm_config && found.back().verdict == Verdict::ok && !plugins_are_found(running))
        found.push_back(
            fail("PluginDir",
                 fmt::format("slurm.conf says {}, slurmctld still runs with {}", value, running),
                 on_controller(facts, {apply_command(Apply::restart_slurmctld)})));
    return found;
}

// ---- the other lines
// ------------------------------------------------------------------------------------

/// Sites with heterogeneous jobs keep the name and put our plug-in in front of PluginDir.
Judge scheduler_type(const std::string& plugin_dir) {
    return [plugin_dir](const std::string& type) -> std::optional<Fault> {
        if (type == "sched/arena") return std::nullopt;
        if (type == "sched/backfill" && stands_in_for_backfill(plugin_dir).value_or(false))
            return std::nullopt;
        return Fault{shown(type) + " is not sched/arena: Arena schedules nothing", "sched/arena"};
    };
}

std::optional<Fault> job_submit_plugins(const std::string& value) {
    std::vector<std::string> plugins = words(value, ',');
    const auto is_arena = [](const std::string& word) {
        return word == "arena" || word == "job_submit/arena";
    };
    if (!plugins.empty() && is_arena(plugins.back()) &&
        std::count_if(plugins.begin(), plugins.end(), is_arena) == 1)
        return std::nullopt;
    const bool listed = std::erase_if(plugins, is_arena) > 0;
    plugins.emplace_back("arena");
    return Fault{shown(value) + (listed ? ": arena must be named once, as the last one"
                                        : ": without arena, whose jobs would run as ordinary ones"),
                 join(plugins, ",")};
}

Judge requeue_exit_hold(std::int64_t code) {
    return [code](const std::string& list) -> std::optional<Fault> {
        if (list_has_code(list, code)) return std::nullopt;
        return Fault{
            fmt::format("{}: without {} elastic jobs cannot be resized", shown(list), code),
            list.empty() ? std::to_string(code) : fmt::format("{},{}", list, code)};
    };
}

/// A profile is taken inside a Prolog, which Slurm must not cut off, and while a batch job starts,
/// which Slurm must not give up: either drains the node or fails the carrier. The Prolog itself
/// ends at the latest 20 s after profile.time_limit_s. INSTALL.md's values are for the default of
/// 300 s.
Judge prolog_time(const std::string& key, double time_limit_s) {
    return [=](const std::string& text) -> std::optional<Fault> {
        constexpr double margin_s = 20;
        const double needed_s = time_limit_s + margin_s;
        const bool none_is_unlimited = key == "PrologEpilogTimeout";
        if (none_is_unlimited && text.empty()) return std::nullopt;
        const auto seconds =
            parse_integer(text.substr(0, text.find(' ')), 0, INT64_MAX);  // "400 sec"
        const std::int64_t now = seconds.value_or(0);
        if (none_is_unlimited && (now == 0 || now == 65534)) return std::nullopt;
        if (static_cast<double>(now) >= needed_s) return std::nullopt;
        return Fault{fmt::format("{} s is too short for profile.time_limit_s {:g}: {:.0f} or more",
                                 now, time_limit_s, std::ceil(needed_s)),
                     fmt::format("{:.0f}",
                                 std::max(std::ceil(needed_s), none_is_unlimited ? 360.0 : 400.0))};
    };
}

/// Which nodes are lent is a partition's list of nodes, set at run time.
std::optional<Fault> reconfig_flags(const std::string& value) {
    std::vector<std::string> flags = words(value, ',');
    for (const std::string& flag : flags)
        if (flag == "KeepPartInfo") return std::nullopt;
    flags.emplace_back("KeepPartInfo");
    return Fault{shown(value) +
                     ": without KeepPartInfo a reconfigure takes lent nodes out of their partition "
                     "until the next round",
                 join(flags, ",")};
}

std::optional<Fault> gres_types(const std::string& value) {
    std::vector<std::string> types = words(value, ',');
    if (std::find(types.begin(), types.end(), "gpu") != types.end()) return std::nullopt;
    types.emplace_back("gpu");
    return Fault{shown(value) + ": without gpu Slurm gives no GPUs", join(types, ",")};
}

/// Whether that Slurm takes a plug-in built for `built`: SPANK's goes by the first two numbers.
bool fits(std::string_view file, const std::string& built, const std::string& runs) {
    const auto series = [](const std::string& version) {
        return version.substr(0, version.rfind('.'));
    };
    return file == "spank_arena.so" ? series(built) == series(runs) : built == runs;
}

/// What a file of PluginDir was built for; nothing where it does not say.
struct BuiltPlugin {
    std::string path;
    std::optional<std::string> version;
};

std::vector<BuiltPlugin> built_plugins(const Facts& facts, const char* file) {
    constexpr std::size_t max_bytes = std::size_t{256} << 20;
    std::vector<BuiltPlugin> list;
    for (const std::string& directory : words(wanted_value(facts, "PluginDir"), ':')) {
        if (!has_file(directory, file)) continue;
        const std::string path = fmt::format("{}/{}", directory, file);
        const auto bytes = read_user_file(path, max_bytes);
        list.push_back({path, bytes ? parse_plugin_version(*bytes) : std::nullopt});
    }
    return list;
}

/// The first plug-in that Slurm `runs` refuses without finding another in a later directory.
std::optional<BuiltPlugin> foreign_plugin(const Facts& facts, const std::string& runs) {
    for (const char* file : {"sched_arena.so", "job_submit_arena.so", "spank_arena.so"}) {
        const std::vector<BuiltPlugin> list = built_plugins(facts, file);
        const bool one_fits = std::any_of(list.begin(), list.end(), [&](const BuiltPlugin& one) {
            return !one.version || fits(file, *one.version, runs);
        });
        if (!list.empty() && !one_fits) return list.front();
    }
    return std::nullopt;
}

bool has_scheduler_for(const Facts& facts, const std::string& runs) {
    const std::vector<BuiltPlugin> list = built_plugins(facts, "sched_arena.so");
    return std::any_of(list.begin(), list.end(),
                       [&](const BuiltPlugin& one) { return one.version == runs; });
}

Finding check_version(const Facts& facts) {
    const std::string name = "Slurm version", built = ARENA_SLURM_VERSION;
    if (built == "none") return skip(name, "this build has no plug-ins");
    std::string runs = running_value(facts, "SLURM_VERSION");
    if (runs.empty() || (facts.slurm_version && *facts.slurm_version != built)) {
        if (!facts.slurm_version) return skip(name, facts.slurm_version.error().message());
        runs = *facts.slurm_version;
    }
    const Remedy restart = on_controller(facts, {apply_command(Apply::restart_slurmctld)});
    if (runs != built && !has_scheduler_for(facts, runs)) {
        Remedy remedy{
            "contrib/get-slurm-headers && make clean && ./configure --sysconfdir=/etc && make && "
            "make install"};
        remedy.insert(remedy.end(), restart.begin(), restart.end());
        return fail(name,
                    fmt::format("{} runs, the plug-ins were built for {} and are refused; in "
                                "slurm-arena's directory:",
                                runs, built),
                    std::move(remedy));
    }
    if (const auto foreign = foreign_plugin(facts, runs)) {
        Remedy remedy{"make install"};
        remedy.insert(remedy.end(), restart.begin(), restart.end());
        return fail(name,
                    fmt::format("{} runs, {} was built for {} and is refused; in the directory "
                                "where slurm-arena was built:",
                                runs, foreign->path, *foreign->version),
                    std::move(remedy));
    }
    return ok(name, runs + ", as the plug-ins were built for");
}

/// Whether slurmctld answers, and if not, what Slurm's command says.
Finding check_slurmctld(const Facts& facts) {
    const std::string name = "slurmctld";
    if (facts.slurm_config) {
        const std::string where = facts.host.controller_name;
        return ok(name, where.empty() ? "answers" : "answers on " + where);
    }
    const std::string why = facts.slurm_config.error().message();
    if (!facts.slurm_conf) return skip(name, why);
    return fail(name,
                why + "; its log says why: " + shown(facts.slurm_conf->value("SlurmctldLogFile")),
                on_controller(facts, {apply_command(Apply::restart_slurmctld)}));
}

Finding check_conf_file(const Facts& facts) {
    if (facts.slurm_conf) return ok("slurm.conf", facts.slurm_conf_path);
    return skip("slurm.conf", facts.slurm_conf.error().message() + "; what slurmctld says counts");
}

}  // namespace

std::vector<Finding> check_slurm(const Facts& facts) {
    std::vector<Finding> found{check_conf_file(facts)};
    if (facts.slurm_conf || facts.slurm_config)
        for (Finding& finding : check_plugins(facts)) found.push_back(std::move(finding));
    const bool commands_work = found.size() < 2 || found[1].verdict == Verdict::ok;
    found.push_back(commands_work
                        ? check_slurmctld(facts)
                        : skip("slurmctld", "cannot be asked before PluginDir is mended"));
    found.push_back(check_version(facts));
    if (!facts.slurm_conf && !facts.slurm_config) return found;
    const auto line = [&](const std::string& key, Apply apply, const Judge& judge) {
        found.push_back(check_line(facts, key, apply, judge));
    };
    line("SchedulerType", Apply::restart_slurmctld,
         scheduler_type(wanted_value(facts, "PluginDir")));
    line("JobSubmitPlugins", Apply::restart_slurmctld, job_submit_plugins);
    line("GresTypes", Apply::restart_slurmctld, gres_types);
    if (!facts.config) return found;
    line("RequeueExitHold", Apply::reconfigure, requeue_exit_hold(facts.config->requeue_exit_code));
    if (facts.config->loan_enabled) line("ReconfigFlags", Apply::restart_slurmctld, reconfig_flags);
    if (!facts.config->profile_enabled) return found;
    for (const char* key : {"PrologEpilogTimeout", "BatchStartTimeout"})
        line(key, Apply::reconfigure, prolog_time(key, facts.config->profile_time_limit_s));
    return found;
}

}  // namespace arena::cli
