// SPDX-License-Identifier: GPL-2.0-or-later
// The policy interface: a pure function from a snapshot and the offers of its jobs to a decision.
// The Slurm adapter, the simulator and `arena explain` drive the same function.
#pragma once

#include <span>
#include <string_view>

#include "core/values.h"

namespace arena {

struct PolicyOptions {
    std::int64_t reserve_depth = 1;  ///< waiting jobs that are released with a shape, >= 0
    std::uint64_t seed = 0;
    bool operator==(const PolicyOptions&) const = default;
};

/// Pure: same arguments, same decision. Each job gets at most one action; starts never use more than
/// the free GPUs, CPUs and memory of the snapshot's nodes, nor nodes outside the job's node set.
using PolicyFunction = Decision (*)(const Snapshot&, const Offers&, const PolicyOptions&);

struct Policy {
    std::string_view name;
    std::string_view summary;
    PolicyFunction decide;
};

/// All policies, the default first.
std::span<const Policy> policies();
/// nullptr when there is none of that name.
const Policy* find_policy(std::string_view name);

}  // namespace arena
