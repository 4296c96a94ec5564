// SPDX-License-Identifier: GPL-2.0-or-later
// The process `arena-watch agent`: reads the rings of a step on this node for its chief, and on the
// step's first node hosts the chief as well. It needs nothing and nobody needs it: whatever happens
// to it, training goes on.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "watch/agent/node_rings.h"
#include "watch/wire/link.h"

namespace arena::watch {

/// The chief, where it lives in the agent's process. Nothing here waits.
class ChiefHost {
  public:
    virtual ~ChiefHost() = default;
    [[nodiscard]] virtual std::vector<pollfd> wanted() const = 0;
    virtual void serve(const Clocks& now) = 0;
    /// False: it still has something to say to others, for a few seconds.
    [[nodiscard]] virtual bool is_done() const { return true; }
};

struct AgentPlace {
    WatchKey key{};
    Meeting meeting;
    RingFilter filter;
    std::string node;  ///< its name, for the chief
    double poll_s = 5;
    pid_t task = 0;   ///< the process whose end ends the agent, where there is no rank; 0: none
    std::string log;  ///< file for its lines: made when there is one
    bool keep_names = false;
};
/// What a variable of this process says; "" where it is not there.
std::string variable_of(const char* name);
/// By the environment of a step: ARENA_WATCH_KEY, ARENA_WATCH_POLL_S, ARENA_WATCH_RUN,
/// ARENA_WATCH_LOG_DIR, ARENA_WATCH_KEEP_RINGS and Slurm's. Errors name the variable.
Result<AgentPlace> find_place(GetVariable get, pid_t task);

/// Until 5 s after its ranks and the task have ended. host: where the chief is here; may be null.
void run_agent(const AgentPlace& place, ChiefHost* host);

}  // namespace arena::watch
