// SPDX-License-Identifier: GPL-2.0-or-later
// What slow GPUs and links do to one synchronous job: its slowest part is its pace; and how far a
// split of its micro-batches helps (S2). Pure.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "core/plan.h"
#include "sim/slow/slowdowns.h"

namespace arena::sim {

/// A GPU of a node.
using Device = std::pair<NodeIndex, std::int64_t>;

struct SlowJob {
    std::vector<Device> devices = {};  ///< by rank
    Plan plan = {};                    ///< without stages where it is not known
    double iteration_s = 0;            ///< when nothing is slow, > 0
    /// Of the iteration; below 0: not known, and then a slow link's factor is the iteration's.
    double communication_share = -1;
};

/// How slow its parts are now; 1: as ever.
struct SlowParts {
    std::vector<double> ranks;  ///< computation, by rank
    double communication = 1;
    [[nodiscard]] double compute() const;
};
/// Of those slowdowns that meet it. A delay of an iteration is a factor of its computation.
SlowParts slow_parts(const SlowJob& job, std::span<const Slowdown> active);
/// Whether it is one of these devices that is slow, or a link between two of them.
bool meets(const SlowJob& job, const Slowdown& slow);

/// Seconds of an iteration with these micro-batches per replica; none: the even split.
double slow_iteration_s(const SlowJob& job, const SlowParts& parts,
                        std::span<const std::int64_t> counts = {});
/// The best split; nothing where there is one replica, one micro-batch each, or no known plan.
/// Ranks are laid out as Megatron-LM does: tensor and context first, then data, then pipeline.
std::vector<std::int64_t> best_split(const SlowJob& job, const SlowParts& parts);

}  // namespace arena::sim
