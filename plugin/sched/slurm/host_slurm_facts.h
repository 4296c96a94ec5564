// SPDX-License-Identifier: GPL-2.0-or-later
// What Slurm's records keep for Arena of nodes, and of which nodes a job is not to get: Extra,
// fences, ExcNodeList. Pure copying, but for the calls that Host names; callers of the others hold
// the locks.
#pragma once

#include <set>

#include "plugin/sched/slurm/host_slurm_nodes.h"
#include "plugin/sched/slurm/slurm_util.h"

namespace arena {

std::vector<std::string> write_node_extras(const std::vector<HostNodes::ExtraChange>& changes);
ApplyResult fence_node(const HostNodes::Fencing& fencing);

/// Made by Arena, as far as one can see who does not look at its name; one that an administrator
/// has changed is his.
bool is_of_arenas_form(const slurmctld_resv_t* reservation);
/// From now on and for good, of what runs there nothing is ended. Slurm's error code.
int reserve_for_arena(const std::string& name, const std::string& node, const std::string& users,
                      std::uint64_t more_flags);
int drop_reservation(const std::string& name);

using ReservedNodes = std::set<std::string>;
ReservedNodes nodes_reserved_by_arena();
/// Nothing of a node that says nothing to Arena.
std::optional<NodeRecord> node_record(const node_record_t* node, const ReservedNodes& reserved);

/// The job's own ExcNodeList, without what Arena wrote there.
std::string own_excludes(const job_record_t* job);
/// The same as nodes; nullptr = none.
Bitmap own_excluded_nodes(const job_record_t* job);
/// Those that Arena wrote there, beside its own; nullptr = none.
Bitmap added_excludes(const job_record_t* job);
/// Has Slurm leave these nodes out, too; the job's own list is kept beside.
void exclude_too(job_record_t* job, const std::vector<std::string>& nodes);
/// Has Slurm, should it start the job by itself, give it so many nodes of a block at a time; its
/// user's own --segment holds, too, and is kept beside. 1: any.
void keep_segments(job_record_t* job, std::int64_t nodes);
/// Gives the job its own list back, unless somebody has changed it since, and its own segment.
void restore_request(job_record_t* job);

}  // namespace arena
