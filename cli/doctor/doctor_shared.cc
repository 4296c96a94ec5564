// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`: what several hosts must see alike. The spool: each host's doctor leaves a probe
// there, as the service user would a result, and looks for those of the others. The store, where
// there are several controllers: that it does not lie on a disk of one of them.
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/text.h"
#include "cli/doctor/doctor_parts.h"

namespace arena::cli {
namespace {

constexpr std::string_view probe_prefix = "doctor-", probe_suffix = ".probe";
constexpr double probe_lasts_s = 86400;

// ---- probes
// -----------------------------------------------------------------------------------------------

/// Root acts as the service user, whom a file server lets write where it does not let root.
class AsUser {
  public:
    explicit AsUser(const passwd& user) : uid_(::geteuid()), gid_(::getegid()) {
        acts_ = uid_ != 0 || (::setegid(user.pw_gid) == 0 && ::seteuid(user.pw_uid) == 0);
    }
    ~AsUser() {
        if (uid_ != 0) return;
        [[maybe_unused]] const int back = ::seteuid(uid_) | ::setegid(gid_);
    }
    AsUser(const AsUser&) = delete;
    AsUser& operator=(const AsUser&) = delete;
    [[nodiscard]] bool acts() const { return acts_; }

  private:
    uid_t uid_;
    gid_t gid_;
    bool acts_ = false;
};

std::string probe_path(const std::string& spool, std::string_view host) {
    return fmt::format("{}/{}{}{}", spool, probe_prefix, host, probe_suffix);
}

/// What kept the probe of this host from being written; "" = nothing, or nobody may here.
std::string write_probe(const Facts& facts) {
    const passwd* entry = ::getpwnam(facts.config->profile_user.c_str());
    if (entry == nullptr || (::geteuid() != 0 && ::geteuid() != entry->pw_uid)) return {};
    const AsUser user(*entry);
    if (!user.acts()) return {};
    const std::string path = probe_path(facts.config->profile_spool, facts.host.name);
    (void)::unlink(path.c_str());
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (fd < 0) return std::strerror(errno);
    (void)::close(fd);
    return {};
}

struct Probe {
    std::string host;
    double age_s = 0;
};

/// Of the other hosts, young enough to say how things are now; the youngest first.
std::vector<Probe> read_probes(const Facts& facts) {
    std::vector<Probe> probes;
    std::error_code unreadable;
    for (const auto& entry :
         std::filesystem::directory_iterator(facts.config->profile_spool, unreadable)) {
        const std::string file = entry.path().filename();
        struct stat info {};
        if (!file.starts_with(probe_prefix) || !file.ends_with(probe_suffix) ||
            ::lstat(entry.path().c_str(), &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        const std::string host = file.substr(
            probe_prefix.size(), file.size() - probe_prefix.size() - probe_suffix.size());
        const double age_s = std::max(0.0, std::difftime(std::time(nullptr), info.st_mtime));
        if (!same_host(host, facts.host.name) && age_s < probe_lasts_s)
            probes.push_back({host, age_s});
    }
    std::sort(probes.begin(), probes.end(),
              [](const Probe& a, const Probe& b) { return a.age_s < b.age_s; });
    return probes;
}

bool is_controller(const Facts& facts, std::string_view host) {
    const auto names = controllers(facts);
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return same_host(name, host); });
}

// ---- the spool
// --------------------------------------------------------------------------------------------

/// Whether a node with GPUs is another host than this one, which is a controller.
bool has_other_nodes(const Facts& facts) {
    return facts.nodes && std::any_of(facts.nodes->begin(), facts.nodes->end(), [&](const auto& n) {
               return !n.gpu_types.empty() && !same_host(n.host, facts.host.name);
           });
}

Finding check_spool_shared(const Facts& facts) {
    const std::string name = "spool shared", &spool = facts.config->profile_spool;
    if (const std::string why = write_probe(facts); !why.empty())
        return fail(name, fmt::format("{} cannot write in {}: {}: no result of a profile run "
                                      "arrives",
                                      facts.config->profile_user, spool, why));
    const bool looks_for_nodes = facts.host.controller;
    for (const Probe& probe : read_probes(facts))
        if (looks_for_nodes || is_controller(facts, probe.host))
            return ok(name, fmt::format("{} has what arena doctor wrote on {} {} ago", spool,
                                        printable(probe.host, 60), human_seconds(probe.age_s)));
    if (looks_for_nodes)
        return skip(name, fmt::format("whether nodes write to this {} is not known: run arena "
                                      "doctor as root on a compute node, which looks for {}, then "
                                      "here again",
                                      spool, probe_path("", facts.host.name).substr(1)));
    return warn(name, fmt::format("{0} here has nothing that arena doctor wrote on {1} in the last "
                                  "day: run it there as root, then here again; should this stay, "
                                  "{0} is not on storage that both share, and no result of a "
                                  "profile run arrives",
                                  spool, facts.host.controller_name));
}

// ---- the store of several controllers
// ---------------------------------------------------------------------

/// By the kind of the file system: over a network, or (FUSE) perhaps.
bool is_over_network(const std::string& path) {
    constexpr std::uint32_t kinds[] = {
        0x6969,      // nfs
        0xff534d42,  // cifs
        0xfe534d42,  // smb2
        0x0bd00bd0,  // lustre
        0x47504653,  // gpfs
        0x00c36400,  // ceph
        0x19830326,  // beegfs
        0xaad7aaea,  // panfs
        0x7461636f,  // ocfs2
        0x01161970,  // gfs2
        0x01021997,  // 9p
        0x65735546,  // fuse
    };
    struct statfs info {};
    if (::statfs(path.c_str(), &info) != 0) return false;
    const auto kind = static_cast<std::uint32_t>(info.f_type);
    return std::find(std::begin(kinds), std::end(kinds), kind) != std::end(kinds);
}

bool on_one_file_system(const std::string& a, const std::string& b) {
    struct stat first {
    }, second{};
    return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 &&
           first.st_dev == second.st_dev;
}

/// StateSaveLocation is shared between controllers already.
Finding check_store_shared(const Facts& facts, const std::vector<std::string>& hosts) {
    const std::string name = "store shared", directory = store_rule(facts).path,
                      state = wanted_value(facts, "StateSaveLocation");
    if (::access(directory.c_str(), F_OK) != 0)
        return skip(name, directory + ": " + std::strerror(errno));
    if (is_over_network(directory)) return ok(name, directory + " is on network storage");
    if (!state.empty() && on_one_file_system(directory, state))
        return ok(name, fmt::format("{} is on the file system of StateSaveLocation, {}", directory,
                                    state));
    DirectoryRule rule = store_rule(facts);
    rule.path = (state.empty() ? "/shared" : state) + "/slurm-arena";
    return warn(
        name,
        fmt::format("{} is on a file system of this host, and slurm.conf names {} SlurmctldHosts: "
                    "the one that takes over ({}) has no profiles, and plans by formulas until "
                    "models are measured again; have the store on storage that they share, and set "
                    "profile.store: {}/profiles.db in arena.yaml on every host:",
                    directory, hosts.size(), join({hosts.begin() + 1, hosts.end()}, ", "),
                    rule.path),
        {install_command(rule),
         fmt::format("cp -a {}* {}/", shell_word(facts.config->profile_store),
                     shell_word(rule.path)),
         apply_command(Apply::restart_slurmctld)});
}

}  // namespace

std::vector<Finding> check_shared(const Facts& facts) {
    if (!facts.config || !facts.config->profile_enabled) return {};
    const HostRole& host = facts.host;
    std::vector<Finding> found;
    const bool is_node_alone = host.compute && !host.controller && !host.controller_name.empty();
    struct stat info {};
    const bool has_spool = ::stat(facts.config->profile_spool.c_str(), &info) == 0;
    if (has_spool && (is_node_alone || (host.controller && has_other_nodes(facts))))
        found.push_back(check_spool_shared(facts));
    if (const auto hosts = controllers(facts); host.controller && hosts.size() > 1)
        found.push_back(check_store_shared(facts, hosts));
    return found;
}

}  // namespace arena::cli
