// SPDX-License-Identifier: GPL-2.0-or-later
// Whether a submitted job is Arena's and may come in: pure rules over what job_submit_arena.cc
// copies from Slurm's job description and node table. Every refusal is one sentence that names the
// option and what it accepts. Never opens a file: a script is read in its first 64 KiB only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "planner/requests/cluster_rules.h"
#include "request/request.h"

namespace arena {

/// A limit that Slurm refuses a job for, not only delays it.
struct HardLimit {
    enum class Of { gpus, gpus_per_node, nodes };
    Of of = Of::gpus;
    std::int64_t most = 0;
    std::string words;  ///< for people: "QOS small (MaxTRESPerJob, DenyOnLimit)"
};

/// What the job description says, as far as Arena cares.
struct SubmitFacts {
    std::vector<std::string> records;  ///< values of ARENA_RECORD in the control environment
    std::string_view script;           ///< empty for salloc and srun
    bool interactive = false;          ///< no batch job
    bool immediate = false;            ///< salloc --immediate
    bool het = false, array = false, cron = false;
    std::string offered_from;  ///< this cluster, where others of its federation may start the job;
                               ///< "" = none may
    bool held = false;         ///< sbatch --hold
    bool no_requeue = false;   ///< sbatch --no-requeue
    bool node_list = false;    ///< sbatch --nodelist
    int signal = 0;            ///< sbatch --signal; 0 = not given
    bool shape_given = false;  ///< --nodes, --ntasks and the like
    bool priority_given = false;     ///< --priority by an operator
    std::string gpu_option;          ///< the option that asks for GRES, "" = none
    std::string cpus_per_tres;       ///< "gres:gpu:4"
    std::string mem_per_tres;        ///< "gres:gpu:8192", MB
    std::int64_t cpus_per_task = 0;  ///< 0 = not given
    std::int64_t memory_per_node_mb = 0, memory_per_cpu_mb = 0, tmp_mb = 0;  ///< 0 = not given
    bool whole_memory = false;                                               ///< --mem=0
    std::string comment;       ///< sbatch --comment, may hold "arena:..."
    std::string rendezvous;    ///< value of ARENA_RDZV_HOST in the job's environment
    std::string estimate;      ///< value of ARENA_ESTIMATE in the control environment
    std::int64_t limit_s = 0;  ///< time limit that the job will have, of several partitions' the
                               ///< least; 0 = none
    bool limit_given = false;  ///< by its user: --time, or --time-min
    std::vector<HardLimit> limits = {};
};

/// Whether some count and layout that the request may have keeps all the limits.
Status check_limits(const Request& request, const std::vector<HardLimit>& limits,
                    std::int64_t tmp_mb, const ClusterFacts& cluster, const SiteFacts& site);

struct Acceptance {
    Request request;
    std::string record;  ///< new value of ARENA_RECORD
    std::string admin_comment;
    std::string note;                ///< shown to the user; may be empty
    std::int64_t limit_minutes = 0;  ///< the time limit that it gets; 0 = it keeps the one it has
};

/// The request of this job: nothing for an ordinary job (no channel used), an error for a bad one.
/// Knows neither cluster nor configuration.
Result<std::optional<Request>> read_request(const SubmitFacts& facts);

/// The rest of the checks, against the cluster, and what to write into the job.
Result<Acceptance> accept_request(Request request, const SubmitFacts& facts,
                                  const ClusterFacts& cluster, const SiteFacts& site);

/// What a Comment makes of an accepted job's record, by the same checks: the new record; nothing
/// where it says nothing to Arena.
Result<std::optional<std::string>> change_record(const std::string& record,
                                                 std::string_view comment, std::int64_t tmp_mb,
                                                 const ClusterFacts& cluster,
                                                 const SiteFacts& site);

/// The partitions that an accepted job gets: its own, by name, and that of lent nodes where it may
/// have such. `given`: a comma list; "" = the default one. Nothing: they stay as they are.
std::optional<std::string> partitions_with_lent(const Request& request, std::string_view given,
                                                std::string_view by_default, const Config& config);
/// Whether a job may be in these partitions; `request`: nothing of an ordinary job.
Status check_lent(const std::optional<Request>& request, std::string_view partitions,
                  const Config& config);

/// Entries of spank_job_env that nobody but Arena may set ("ARENA_...", "SPANK_ARENA_...").
bool is_arena_control(std::string_view entry);
/// What sbatch's own option forwarding leaves there for --arena-* options.
bool is_arena_option_control(std::string_view entry);
/// Variables of an Arena job's environment that would contradict the plan: submit-time counts,
/// another Arena job's variables, our own options.
bool is_stale_variable(std::string_view entry);

}  // namespace arena
