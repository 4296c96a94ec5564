// SPDX-License-Identifier: GPL-2.0-or-later
// The first stage of a round: what every choice of every task is worth, what is foreseen for jobs
// that will never be changed, and what is no choice now because the job keeps to its appointed
// times or finds no nodes that could hold it.
#pragma once

#include <vector>

#include "policy/arena/foresight.h"
#include "policy/arena/worth.h"
#include "policy/packing.h"

namespace arena {

struct Prices {
    std::vector<double> weights;      ///< by task
    std::vector<double> values;       ///< by choice, all tasks one after the other; 0: not now
    std::vector<double> wanted;       ///< the same, also of what others' GPUs would be needed for
    std::vector<double> moved;        ///< by task: value of its current choice on other nodes
    std::vector<Prospect> prospects;  ///< by task; empty: nothing is foreseen
    std::vector<bool> starving;       ///< by task
    /// As values, of waiting jobs behind an ordinary one alone, which have none there; empty: there
    /// are none of them.
    std::vector<double> aside;
    const Turn* turn = nullptr;  ///< with order priority
};

/// left_out: waiting jobs that are no tasks. With order priority what would break the job's own
/// promise is worth nothing, and who stands in a higher step than others is worth more with any
/// offer than they are together with theirs, so that it starts first; by how much an offer is
/// better than another stays as it is.
Prices price(const Problem&, const Packing&, const Worth&, const ArenaRules&, std::int64_t left_out,
             const Turn*);

}  // namespace arena
