// SPDX-License-Identifier: GPL-2.0-or-later
// What each task of a round asks for under policy `aryl`: its base, what stands for it on other GPU
// types, and what a step beyond it saves.
#pragma once

#include "policy/aryl/aryl_policy.h"
#include "policy/aryl/two_phase.h"
#include "policy/problem.h"

namespace arena {

/// The task's base: a running one's on the type it runs on, and never more than it has.
const Choice& base_of(const Problem&, const Task&, const ArylRules&);

/// What stands for the base on that type; nullptr: nothing that is fast enough.
const Choice* base_on(const Problem&, const Task&, const Choice& base, std::int32_t type,
                      const ArylRules&);

/// Whether the job has waited beyond its bound, by its run at the base.
bool has_aged(const Task&, double run_s, const ArylRules&);

/// Steps of an elastic task beyond the base, on the base's type; `first`: index within the task's
/// choices of the first step. A running one's are charged; without `may_grow` only what it has
/// saves anything.
struct TaskGrowth {
    Growth growth;
    std::int32_t first = 0;
};
TaskGrowth growth_of(const Problem&, const Task&, const Choice& base, const ArylRules&,
                     bool may_grow);

}  // namespace arena
