// SPDX-License-Identifier: GPL-2.0-or-later
// Private to the doctor: how a finding is made, how a remedy is written, and who may do what with a
// file.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include "cli/doctor/doctor.h"

namespace arena::cli {

using Remedy = std::vector<std::string>;
Finding ok(std::string check, std::string text);
Finding warn(std::string check, std::string text, Remedy remedy = {});
Finding fail(std::string check, std::string text, Remedy remedy = {});
Finding skip(std::string check, std::string text);

// ---- Slurm's settings
// --------------------------------------------------------------------------------
/// Of slurmctld, where it answers; "(null)" is "". Of a list ("Prolog[0]", in 24.11) the first.
std::string running_value(const Facts&, const std::string& key);
/// Of this host's slurm.conf; slurmctld's where the file has no such line or cannot be read.
std::string wanted_value(const Facts&, const std::string& key);
/// Name of SlurmUser; root where nothing names another. "" = neither file nor slurmctld could be
/// asked.
std::string slurm_user(const Facts&);
uid_t slurm_uid(const Facts&);

/// Names of one host, but for their domains.
bool same_host(std::string_view a, std::string_view b);

// ---- remedies
// -----------------------------------------------------------------------------------------
/// In single quotes where the shell would read it otherwise.
std::string shell_word(const std::string& text);
/// What makes a change of slurm.conf count.
enum class Apply { reconfigure, restart_slurmctld, restart_slurmd };
std::string apply_command(Apply);
/// The line in the file where it stands, else at the end of slurm.conf; and what makes it count.
Remedy set_in_slurm_conf(const Facts&, const std::string& key, const std::string& value, Apply);
/// As they are on the controller, elsewhere with its name before them.
Remedy on_controller(const Facts&, Remedy);
/// A top-level key of arena.yaml, and a reconfigure.
Remedy set_in_arena_yaml(const Facts&, const std::string& key, const std::string& value);

// ---- files
// --------------------------------------------------------------------------------------------
/// A directory of Arena's: the one place that says how it has to be. arena.yaml(5) has the same
/// table.
struct DirectoryRule {
    std::string path, owner, group;
    mode_t mode;
};
DirectoryRule spool_rule(const Facts&);
DirectoryRule store_rule(const Facts&);
DirectoryRule socket_rule(const Facts&);
/// install -d with owner, group and mode: makes it, or mends one that is there.
std::string install_command(const DirectoryRule&);
std::string user_name(uid_t);
std::string group_name(gid_t);
/// "owner:group, mode 0755"
std::string owner_text(const struct stat&);
/// The primary group of a user; "root" where there is no such user.
std::string group_of_user(const std::string& user);
/// Whether the mode lets the user do all of `bits` (4 read, 2 write, 1 enter) with it; root may
/// always.
bool mode_allows(const struct stat&, const std::string& user, unsigned bits);
/// The first directory on the way to `path` that the user may not enter; "" = none.
std::string closed_way(const std::string& path, const std::string& user);

}  // namespace arena::cli
