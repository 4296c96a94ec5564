// SPDX-License-Identifier: GPL-2.0-or-later
// The two ways to the best set of servers: all of them, and exchanges from a good one.
#pragma once

#include "policy/loans/reclaim.h"

namespace arena {

/// The best set there is, by the order of ReclaimProblem::second; ties to the first found. Looks at
/// all sets but those that preempt more than a known one already.
std::vector<ServerIndex> search_all_servers(const ReclaimProblem&,
                                            const std::vector<ServerIndex>& known);

/// Tabu search from a known set: each step takes back the server whose return costs most and
/// returns the one that costs least, neither turned lately; without success it shakes the best set
/// found, or begins anew from another greedy one. Never worse than what was known.
std::vector<ServerIndex> search_servers(const ReclaimProblem&,
                                        const std::vector<ServerIndex>& known,
                                        const ReclaimOptions&);

}  // namespace arena
