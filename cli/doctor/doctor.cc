// SPDX-License-Identifier: GPL-2.0-or-later
// What all checks of `arena doctor` share: see doctor.h and doctor_parts.h.
#include "cli/doctor/doctor.h"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "cli/doctor/doctor_parts.h"
#include "site/config_sum.h"

namespace arena::cli {
namespace {

std::string or_empty(const std::string& value) { return value == "(null)" ? std::string() : value; }

/// For a replacement of sed's s command with | about it.
std::string sed_text(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\' || c == '&' || c == '|') out += '\\';
        out += c;
    }
    return out;
}

std::string first_word(std::string_view text, char end) {
    return std::string(text.substr(0, text.find(end)));
}

std::string without_domain(std::string_view name) { return first_word(name, '.'); }

/// Its name in Slurm; where slurmctld does not answer, only a NodeName that is one name tells.
std::string node_of(const Facts& facts, std::string_view host) {
    if (facts.nodes)
        for (const SlurmNode& node : *facts.nodes)
            if (same_host(node.host, host)) return node.name;
    if (!facts.nodes && facts.slurm_conf)
        for (const SlurmConfLine& line : facts.slurm_conf->lines)
            if (line.key == "nodename" && same_host(line.value, host)) return line.value;
    return {};
}

}  // namespace

bool same_host(std::string_view a, std::string_view b) {
    return !a.empty() && without_domain(a) == without_domain(b);
}

std::vector<std::string> controllers(const Facts& facts) {
    std::vector<std::string> names;
    if (facts.slurm_conf)
        for (const SlurmConfLine& line : facts.slurm_conf->lines)
            if (line.key == "slurmctldhost" || line.key == "controlmachine")
                names.push_back(first_word(line.value, '('));
    if (names.empty() && facts.slurm_config)
        for (const auto& [key, value] : *facts.slurm_config)
            if (key.starts_with("SlurmctldHost")) names.push_back(first_word(value, '('));
    return names;
}

std::string_view to_string(Verdict verdict) {
    switch (verdict) {
        case Verdict::ok:
            return "ok";
        case Verdict::warn:
            return "warn";
        case Verdict::fail:
            return "FAIL";
        case Verdict::skip:
            return "skip";
    }
    return "?";
}

Finding ok(std::string check, std::string text) {
    return {std::move(check), Verdict::ok, std::move(text)};
}
Finding warn(std::string check, std::string text, Remedy remedy) {
    return {std::move(check), Verdict::warn, std::move(text), std::move(remedy)};
}
Finding fail(std::string check, std::string text, Remedy remedy) {
    return {std::move(check), Verdict::fail, std::move(text), std::move(remedy)};
}
Finding skip(std::string check, std::string text) {
    return {std::move(check), Verdict::skip, std::move(text)};
}

std::string running_value(const Facts& facts, const std::string& key) {
    if (!facts.slurm_config) return {};
    auto at = facts.slurm_config->find(key);
    if (at == facts.slurm_config->end()) at = facts.slurm_config->find(key + "[0]");
    return at == facts.slurm_config->end() ? std::string() : or_empty(at->second);
}

std::string wanted_value(const Facts& facts, const std::string& key) {
    const SlurmConfLine* line = facts.slurm_conf ? facts.slurm_conf->find(key) : nullptr;
    return line != nullptr ? or_empty(line->value) : running_value(facts, key);
}

std::string slurm_user(const Facts& facts) {
    if (!facts.slurm_conf && !facts.slurm_config) return {};
    const std::string user = first_word(wanted_value(facts, "SlurmUser"), '(');
    return user.empty() ? "root" : user;
}

/// The caller where nobody names SlurmUser: files of his own then pass.
uid_t slurm_uid(const Facts& facts) {
    const std::string user = slurm_user(facts);
    if (user.empty()) return ::geteuid();
    const passwd* entry = ::getpwnam(user.c_str());
    return entry != nullptr ? entry->pw_uid : 0;
}

std::string shell_word(const std::string& text) {
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+@%-";
    if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string apply_command(Apply apply) {
    switch (apply) {
        case Apply::reconfigure:
            return "scontrol reconfigure";
        case Apply::restart_slurmctld:
            return "systemctl restart slurmctld";
        case Apply::restart_slurmd:
            return "systemctl restart slurmd";
    }
    return {};
}

Remedy on_controller(const Facts& facts, Remedy remedy) {
    if (facts.host.controller || facts.host.controller_name.empty()) return remedy;
    for (std::string& line : remedy) line = "on " + facts.host.controller_name + ": " + line;
    return remedy;
}

Remedy set_in_slurm_conf(const Facts& facts, const std::string& key, const std::string& value,
                         Apply apply) {
    const SlurmConfLine* line = facts.slurm_conf ? facts.slurm_conf->find(key) : nullptr;
    const std::string file = shell_word(line != nullptr ? line->file : facts.slurm_conf_path);
    const std::string edit =
        line != nullptr
            ? "sed -i " +
                  shell_word(
                      fmt::format("s|^[ \\t]*{0}[ \\t]*=.*|{0}={1}|I", key, sed_text(value))) +
                  " " + file
            : "sed -i " + shell_word(fmt::format("$a {}={}", key, sed_text(value))) + " " + file;
    return on_controller(facts, {edit, apply_command(apply)});
}

Remedy set_in_arena_yaml(const Facts& facts, const std::string& key, const std::string& value) {
    return {"sed -i " + shell_word(fmt::format("s|^{0}:.*|{0}: {1}|", key, sed_text(value))) + " " +
                shell_word(facts.config_path),
            apply_command(Apply::reconfigure)};
}

std::string user_name(uid_t uid) {
    const passwd* entry = ::getpwuid(uid);
    return entry != nullptr ? entry->pw_name : fmt::format("uid {}", uid);
}

std::string group_name(gid_t gid) {
    const group* entry = ::getgrgid(gid);
    return entry != nullptr ? entry->gr_name : fmt::format("gid {}", gid);
}

std::string owner_text(const struct stat& info) {
    return fmt::format("{}:{}, mode {:04o}", user_name(info.st_uid), group_name(info.st_gid),
                       info.st_mode & 07777);
}

std::string group_of_user(const std::string& user) {
    const passwd* entry = ::getpwnam(user.c_str());
    return entry != nullptr ? group_name(entry->pw_gid) : "root";
}

DirectoryRule spool_rule(const Facts& facts) {
    return {facts.config->profile_spool, facts.config->profile_user,
            group_of_user(slurm_user(facts)), 02750};
}

DirectoryRule store_rule(const Facts& facts) {
    const std::string user = slurm_user(facts), &store = facts.config->profile_store;
    return {store.substr(0, store.rfind('/')), user, group_of_user(user), 0700};
}

DirectoryRule socket_rule(const Facts& facts) {
    const std::string user = slurm_user(facts), &socket = facts.config->socket;
    return {socket.substr(0, socket.rfind('/')), user, group_of_user(user), 0755};
}

std::string install_command(const DirectoryRule& rule) {
    return fmt::format("install -d -o {} -g {} -m {:04o} {}", rule.owner, rule.group, rule.mode,
                       shell_word(rule.path));
}

bool mode_allows(const struct stat& info, const std::string& user, unsigned bits) {
    const passwd* entry = ::getpwnam(user.c_str());
    if (entry == nullptr) return false;
    if (entry->pw_uid == 0) return true;
    const uid_t uid = entry->pw_uid;
    if (info.st_uid == uid) return ((info.st_mode >> 6) & bits) == bits;
    int count = 256;
    std::vector<gid_t> groups(static_cast<std::size_t>(count));
    if (::getgrouplist(user.c_str(), entry->pw_gid, groups.data(), &count) < 0) count = 256;
    groups.resize(static_cast<std::size_t>(count));
    const bool member = std::find(groups.begin(), groups.end(), info.st_gid) != groups.end();
    return ((info.st_mode >> (member ? 3 : 0)) & bits) == bits;
}

std::string closed_way(const std::string& path, const std::string& user) {
    std::filesystem::path at;
    for (const auto& part : std::filesystem::path(path).parent_path()) {
        at /= part;
        struct stat info {};
        if (::stat(at.c_str(), &info) != 0) return {};
        if (!mode_allows(info, user, 1)) return at;
    }
    return {};
}

std::string parse_ping(std::string_view text) {
    constexpr std::string_view at_word = ") at ", is_up = " is UP";
    for (const std::string_view line : split(text, '\n')) {
        const std::size_t at = line.find(at_word), end = line.find(is_up);
        if (at == std::string_view::npos || end == std::string_view::npos || end < at) continue;
        return std::string(trim(line.substr(at + at_word.size(), end - at - at_word.size())));
    }
    return {};
}

std::string parse_slurm_version(std::string_view text) {
    const std::string_view line = trim(text.substr(0, text.find('\n')));
    return std::string(line.substr(line.rfind(' ') + 1));
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

HostRole find_role(const Facts& facts, std::string_view host_name) {
    HostRole role;
    role.name = without_domain(host_name);
    const auto names = controllers(facts);
    if (!names.empty()) role.controller_name = names.front();
    if (facts.in_charge && !facts.in_charge->empty()) role.controller_name = *facts.in_charge;
    role.known = !names.empty() || facts.nodes.ok();
    std::vector<std::string> why;
    for (const std::string& name : names)
        if (same_host(name, host_name)) {
            role.controller = true;
            role.standby = facts.in_charge && !facts.in_charge->empty() &&
                           !same_host(*facts.in_charge, host_name);
            why.push_back("SlurmctldHost=" + name);
            break;
        }
    if (const std::string node = node_of(facts, host_name); !node.empty()) {
        role.compute = true;
        why.push_back("NodeName=" + node);
    }
    role.why = join(why, ", ");
    return role;
}

Finding check_host(const Facts& facts) {
    const HostRole& host = facts.host;
    if (!host.known)
        return warn("host",
                    host.name +
                        ": neither slurm.conf nor slurmctld can be read, so that it is not "
                        "known whether this is the controller, a compute node or a login node");
    const std::string what = host.standby                      ? "standby controller"
                             : host.controller && host.compute ? "controller and compute node"
                             : host.controller                 ? "controller"
                             : host.compute                    ? "compute node"
                                                               : "login node";
    const std::string why =
        host.why.empty() ? "neither SlurmctldHost nor a node of Slurm's" : host.why;
    return ok(
        "host",
        fmt::format("{}: {} ({}{}){}", host.name, what, why,
                    host.standby ? "; " + host.controller_name + " is in charge" : "",
                    ::geteuid() == 0 ? "" : "; not run as root: some files may not be looked at"));
}

Result<std::string> parse_controller_sum(std::string_view text) {
    const std::string_view words = config_sum_words;
    const std::size_t at = text.find(words);
    const std::string_view sum =
        at == std::string_view::npos ? "" : text.substr(at + words.size(), 8);
    if (sum.size() == 8 && sum.find_first_not_of("0123456789abcdef") == std::string_view::npos)
        return std::string(sum);
    return environment_error("slurmctld does not tell: " +
                             printable(trim(text.substr(0, text.find('\n'))), 200));
}

std::vector<Finding> check_all(const Facts& facts) {
    std::vector<Finding> found{check_host(facts)};
    for (const auto& part :
         {check_slurm(facts), check_prolog(facts), check_spank(facts), check_config(facts),
          check_gres(facts), check_devices(facts), check_nodes(facts), check_network(facts),
          check_loans(facts), check_accounts(facts), check_profile_files(facts),
          check_shared(facts), check_controller(facts)})
        found.insert(found.end(), part.begin(), part.end());
    return found;
}

}  // namespace arena::cli
