// SPDX-License-Identifier: GPL-2.0-or-later
// Arrays whose members one pipeline trains, as the scheduler needs them of slurmctld: the jobs of
// users that carry such a pipeline, in plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/cluster.h"

namespace arena {

struct Move;

/// A job of a user whose ranks train the members of an array.
struct ArrayCarrierView {
    JobId id = 0;
    std::uint32_t user_id = 0;
    std::string facts;  ///< what Arena wrote into it: see CarrierFacts
    bool running = false;
    bool configuring = false;  ///< running, and a Prolog or a booting node keeps its script waiting
    bool finished = false;
    std::string end;                        ///< finished: Slurm's word, "COMPLETED"
    std::vector<std::string> nodes;         ///< the first one has the first rank
    std::vector<std::string> drained = {};  ///< of these, by whomever
    double leaves_since_s = 0;      ///< when it was told to leave, as its mark says; 0 = it stays
    double start_s = 0, end_s = 0;  ///< end_s: where it runs, when its limit ends it
    std::int64_t gpus = 0;
    double shared_gpu_s = 0;  ///< that its members have used, as its AdminComment has it
};

/// Who is like whom, beside model, batch and launcher.
struct JobOwner {
    std::string account;
    std::uint32_t qos = 0;
    std::string nodes = {};  ///< what its user asks of its nodes, in words of Slurm's
    bool operator==(const JobOwner&) const = default;
    auto operator<=>(const JobOwner&) const = default;
};

struct ArrayCarrierSpec {
    JobId lead = 0;             ///< the member whose user, account, QOS and environment it has
    std::uint32_t restart = 0;  ///< of the lead, re-checked
    std::uint64_t basis = 0;    ///< the same: JobView::basis
    std::string partition;
    std::vector<std::string> nodes;  ///< exactly these
    std::string gpu_type;
    std::int64_t gpus_per_node = 1, cpus_per_gpu = 1;
    std::int64_t memory_mb_per_node = 0;   ///< 0 = leave to Slurm
    std::uint32_t time_limit_minutes = 0;  ///< of its longest member; 0 = none
    std::string name, script, facts, admin_comment;
    std::vector<std::string> environment;  ///< NAME=value, beside the lead's
};

/// Of the word for what was used of an array's GPUs.
inline constexpr std::string_view share_key = "gpu_s";

/// Makes and ends them.
class HostArrays {
  public:
    virtual ~HostArrays() = default;
    struct Started {
        JobId id = 0;          ///< 0: nothing was started
        bool limited = false;  ///< a limit is in the way, and not the nodes
        bool stale = false;    ///< what was planned is not so any more
        std::string why;       ///< Slurm's words when nothing was started
    };
    /// On exactly its nodes and now, or not at all.
    virtual Started start_array(const ArrayCarrierSpec&) = 0;
    /// Tells its ranks to leave; `at_once`: cancels it. What is over stays as it is.
    virtual void end_array(JobId, bool at_once) = 0;
    /// Tells its ranks to save its members and leave, for all of them go on elsewhere; `at_once`:
    /// cancels it. Its mark says so from then on, and none of them counts it as lost. A move that
    /// counts is one of each of these members. False where it was over already.
    virtual bool leave_array(JobId, const std::vector<JobId>& members, const Move&,
                             bool at_once) = 0;
    /// What a member, which may be over, has used of its array's GPUs, and an array's all members
    /// together: words of its AdminComment, instead of those of the same key.
    struct ShareWords {
        JobId job;
        std::string words;
    };
    virtual void write_shares(const std::vector<ShareWords>&) = 0;
};

}  // namespace arena
