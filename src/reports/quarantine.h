// SPDX-License-Identifier: GPL-2.0-or-later
// How far verdicts of slow nodes go: when they count, for how long, and how many nodes may be kept
// from jobs by them at once. Pure rules over values, for the scheduler and the simulator.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/cluster.h"

namespace arena {

/// What is done with a node that is confirmed to be slow.
enum class Quarantine {
    report,   ///< it is told, no more
    avoid,    ///< Arena's jobs do not start there
    reserve,  ///< the same, and a reservation keeps other jobs away
    drain,    ///< the same, and the node is drained
};

struct SlowdownRules {
    Quarantine quarantine = Quarantine::avoid;
    double max_quarantined_percent = 5;  ///< of the nodes of a type
    std::int64_t confirmations = 2;      ///< of different users
    double recheck_s = 3600;             ///< how long a verdict holds without another
    std::string check_user;              ///< whose checks may run on a reserved node: profile.user
};

/// A node with confirmed facts.
struct Suspect {
    NodeIndex node = 0;
    std::int64_t since = 0;  ///< of the latest of them
    bool trusted = true;     ///< a check or an administrator says so, not users' jobs alone
    double factor = 1;       ///< times slower, of the slowest of them
    bool gone = false;       ///< its own tools say that it cannot be used, not only that it is slow
};
/// Those of the suspects that may be kept from jobs: as many as the rules allow, and never the last
/// node of a GPU type, or the last one but for those that are `gone`: down or drained. Of a type so
/// small that its share is no whole node one may be, where that is trusted. Trusted ones come
/// first, then the latest. What is gone may be kept from jobs whatever these rules say, and
/// is no node that is left for them.
std::vector<NodeIndex> choose_quarantined(std::vector<Suspect> suspects,
                                          const std::vector<NodeState>& nodes,
                                          const SlowdownRules& rules,
                                          const std::set<NodeIndex>& gone = {});

}  // namespace arena
