// SPDX-License-Identifier: GPL-2.0-or-later
// What a policy answers.
#pragma once

#include "core/cluster.h"

namespace arena {

enum class ActionKind { start, reshape_and_wait, resize, profile, preempt };
std::string_view to_string(ActionKind);
std::optional<ActionKind> parse_action_kind(std::string_view);

struct Action {
    ActionKind kind = ActionKind::start;
    JobId job = 0;
    Offer offer = {};  ///< start, reshape_and_wait, resize
    std::vector<NodeIndex> nodes =
        {};                     ///< start, resize: exactly offer.grid.nodes entries; GPUs that the
                                ///< decision's own resizes and preemptions free count as free
    std::string gpu_type = {};  ///< profile: GRES type to measure on
    std::string reason = {};    ///< for people: why this, in a few words
    std::uint32_t place = 0;    ///< start: index into the job's places
    /// start, reshape_and_wait: nodes that are kept for promised jobs, ascending: should Slurm
    /// start it by itself, then not there.
    std::vector<NodeIndex> kept = {};
    bool operator==(const Action&) const = default;
};

struct Decision {
    std::vector<Action> actions;           ///< in the order they are to be applied
    std::map<JobId, std::string> waiting;  ///< why each job that got nothing waits
    std::map<JobId, double>
        patience;  ///< of jobs that wait although enough GPUs are free: until when, by the epoch
    bool operator==(const Decision&) const = default;
};

// With "schema_version":1; the reader as in core/plan.h.
std::string to_json(const Decision&);
Result<Decision> parse_decision(std::string_view);

}  // namespace arena
