// SPDX-License-Identifier: GPL-2.0-or-later
// What Slurm's accounting says of past jobs, as `sacct -P` prints it (sacct(1), 22.05 to 26.05),
// and what `scontrol -o show node` says of the nodes that they ran on. Fields are found by their
// names.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/inputs.h"

namespace arena::sim {

/// The command whose output parse_sacct() reads, for people: -D has each life of a requeued job.
inline constexpr const char* sacct_command =
    "SLURM_TIME_FORMAT=%s sacct -a -X -D -P -S FROM -E UNTIL -o "
    "JobIDRaw,User,Account,Partition,JobName,State,Submit,Eligible,Start,End,TimelimitRaw,Priority,"
    "NNodes,ReqTRES,AllocTRES,NodeList";

/// A life of a job. Times are seconds since the epoch, or of the site's clock where the file has
/// them so; below 0: there is none.
struct PastJob {
    std::string id;  ///< JobIDRaw, or JobID
    std::string user, account, partition, name;
    std::string state;  ///< the first word: COMPLETED, CANCELLED, ...
    double submit_s = -1, eligible_s = -1, start_s = -1, end_s = -1;
    double limit_s = 0;  ///< 0: none
    double priority = 0;
    std::int64_t nodes = 0;
    /// GPUs by type as allocated, else as requested; "": of whichever type its nodes have.
    std::map<std::string, std::int64_t> gpus;
    std::string first_host;  ///< "" where it never ran
    std::size_t line = 0;
    [[nodiscard]] std::int64_t gpu_count() const;
};

/// Steps are skipped. Errors, with file:line: columns that are missing, what is no time, number or
/// TRES.
Result<std::vector<PastJob>> parse_sacct(std::string_view text, const std::string& name);

/// What a node has most of.
struct PastNode {
    std::string gpu_type;  ///< "gpu" where the GRES has no type
    std::int64_t gpus = 0;
};
/// By name; those without GPUs are left out. Errors: no line with NodeName and Gres.
Result<std::map<std::string, PastNode>> parse_nodes(std::string_view text, const std::string& name);

/// The nodes as a cluster of the simulator: groups by type and width, and its YAML.
Cluster cluster_of(const std::map<std::string, PastNode>& nodes);
std::string format_cluster(const Cluster&);

}  // namespace arena::sim
