// SPDX-License-Identifier: GPL-2.0-or-later
// What an update of one of Arena's jobs may do: pure rules. Arena holds its waiting jobs with
// priority 0, so a user's hold and release must be kept apart from Arena's own: they change the
// mark, and a release never starts a job that has no plan. Cancel, time limit, name, Comment and
// the like pass.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/observation.h"
#include "core/offer.h"
#include "plugin/common/job_mark.h"
#include "reports/slow_report.h"
#include "reports/slowdown_mode.h"

namespace arena {

enum class PriorityChange { none, release, hold, value };

struct ModifyFacts {
    PriorityChange priority = PriorityChange::none;
    bool user_hold_asked = false;  ///< scontrol uhold
    bool by_operator = false;
    bool nice_change = false;     ///< one that the caller is allowed to make
    bool shape_change = false;    ///< nodes, tasks, CPUs, GRES, node list
    bool request_change = false;  ///< another "arena:..." in the Comment
    bool pending = false;
    bool held = false;           ///< priority 0 now
    bool asked_to_hold = false;  ///< the record says sbatch --hold; counts while there is no mark
    std::uint32_t restart = 0;
    std::int64_t now = 0;
    std::optional<JobMark> mark;
};

enum class ShownReason { keep, arena, user_hold, admin_hold };
enum class Refusal { none, shape, not_permitted, later_version };

struct ModifyDecision {
    Refusal refusal = Refusal::none;
    /// The new nice value goes straight into the job: with priority/basic, Slurm 22.05 would give a
    /// held job a priority, which starts it.
    bool take_nice = false;
    bool drop_priority = false;  ///< the priority in the update must not reach Slurm
    /// It waits released with a shape of the request before: held at once, or Slurm might start it
    /// in that.
    bool take_back = false;
    std::optional<JobMark> mark;  ///< to be written
    ShownReason reason = ShownReason::keep;
    std::string what;  ///< for the log; "" = nothing to tell
    bool operator==(const ModifyDecision&) const = default;
};

ModifyDecision decide_modify(const ModifyFacts& facts);

/// Why a report of a job is refused; "" = it is taken. `offer`: what the job runs under as its own
/// environment has it, nothing where Arena gave it none. `ran_s`: since when it runs; nothing: it
/// does not.
std::string refuse_report(const IterationReport&, const std::optional<Offer>& offer,
                          const std::optional<JobMark>&, std::optional<double> ran_s);

/// Of a job that says that a GPU or a link is slow.
struct WatchedJob {
    SlowdownMode mode = SlowdownMode::off;
    bool runs = false;  ///< under a plan of Arena's
    std::uint32_t life = 0;
    std::int64_t start = 0, now = 0;  ///< epoch seconds
    /// GPUs of the nodes that the report names; nothing: no node of the job's.
    std::optional<std::int64_t> gpus_at, gpus_of_peer;
    bool owns_at = true, owns_peer = true;  ///< of these, the one that it names is the job's
    bool by_admin = false;                  ///< root or SlurmUser says it, or has the job
};
/// Steps that must have been watched before somebody's word counts: without any there is no healthy
/// step that one could be slower than.
inline constexpr std::int64_t least_watched_steps = 5;
/// Why a report that parse_slowdown_report() takes is refused; "" = it is taken.
std::string refuse_slow_report(const SlowReport&, const WatchedJob&);

}  // namespace arena
