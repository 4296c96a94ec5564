// SPDX-License-Identifier: GPL-2.0-or-later
// Rules about jobs that run: how far they are, and whether they may be told to save their state and
// come back with another shape. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plugin/sched/host/host.h"
#include "policy/policy.h"
#include "request/request.h"
#include "site/config.h"

namespace arena {

/// False once its user has changed the request that it was started by.
bool inside_request(const Request& request, const Offer& offer);

/// Up to its last checkpoint as its mark has it, and since its start as the estimate of the plan
/// that it runs has it.
double done_iterations(const JobView& job, const std::optional<Offer>& plan, double now_s,
                       const RestartCost& restart);

/// Whether a signal would find a script that has said what to do with it, `run_s` after its start.
bool ready_for_signals(bool configuring, double run_s);

/// Whether Arena itself may move the running job, which has a mark. One that somebody holds would
/// not come back.
bool movable(const JobView& job, const Request& request, double run_s, double now_s,
             const Config& config);
/// For so many seconds the elastic job, which has run for run_s then, is not moved: cooldown_s,
/// or until it was moved less often than moves_per_hour in an hour. A year: never. `moves`: epoch
/// seconds, oldest first.
double settles_s(std::span<const std::int64_t> moves, std::uint32_t unsaved, double now_s,
                 const Config& config, double run_s = 0);
/// Why the running job, which has a mark, cannot be made to leave its nodes now; "" = it can. A
/// cool-down and a drained node are not in the way; `counts`: as Move has it.
std::string why_not_to_leave(const JobView& job, const Request& request, bool counts, double run_s,
                             double now_s, const Config& config);

/// On which of its nodes the job, which runs by `now`, could go on with `next` inside itself, its
/// batch host among them, and `chosen` as far as may be; ascending. None: it has to be started
/// anew. Whole nodes leave, and no others come.
std::vector<NodeIndex> nodes_to_stay_on(const JobView& job, const Request& request,
                                        const Offer& now, const Offer& next,
                                        std::span<const NodeIndex> chosen,
                                        const Snapshot& snapshot);

/// Seconds of its last moves; 0: none. `launch_s` stands for the start of a move after which nobody
/// said when its first step was done.
MovesTook moves_took(const JobMark& mark, double launch_s);
/// Whether a job on a device that is `factor` times slower than the estimate of its plan loses, in
/// what it has left, more than twice what a restart costs.
bool pays_to_leave(const JobState& job, double factor, const RestartCost& restart);
/// Whether its shape has room now without the nodes that it avoids: on free GPUs and on those that
/// it gives back.
bool has_room_elsewhere(const JobState& job, const Snapshot& snapshot);

}  // namespace arena
