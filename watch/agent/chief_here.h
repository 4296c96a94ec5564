// SPDX-License-Identifier: GPL-2.0-or-later
// The chief in its agent's process, on the first node of a step.
#pragma once

#include <memory>

#include "watch/agent/agent_loop.h"

namespace arena::watch {

/// Null on other nodes, and where none of the step's ports can be had: agents say then that there
/// is no chief.
std::unique_ptr<ChiefHost> chief_here(const AgentPlace& place);

}  // namespace arena::watch
