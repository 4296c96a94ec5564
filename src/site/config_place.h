// SPDX-License-Identifier: GPL-2.0-or-later
// Which arena.yaml is read: one rule for commands, plug-ins and the Prolog (whose shell has it as
// well). ARENA_CONF names it; else it is the one beside slurm.conf, where there is one; else that
// of SYSCONFDIR/slurm, for hosts that have no files of Slurm's.
#pragma once

#include <string>

namespace arena {

/// For a process with these variables; nullptr and "" = not set. Slurm's own slurm.conf is
/// /etc/slurm/slurm.conf.
std::string config_path_of(const char* arena_conf, const char* slurm_conf);
/// For this process, which was given that slurm.conf; config_path() goes by SLURM_CONF.
std::string config_path_beside(const char* slurm_conf);

}  // namespace arena
