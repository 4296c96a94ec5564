// SPDX-License-Identifier: GPL-2.0-or-later
// Holds: nodes that are kept for a waiting job from a time on, because it was promised an end.
// Until then others may have them; beyond it only what the job leaves over. Who stays beyond it is
// the rule of this file; packing.h keeps to it, order/keeping.h makes them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "policy/problem.h"

namespace arena {

/// GPUs of a node, and the CPUs and memory beside them.
struct Resources {
    std::int64_t gpus = 0, cpus = 0, memory_mb = 0;
    Resources& operator+=(const Resources& more) {
        gpus += more.gpus;
        cpus += more.cpus;
        memory_mb += more.memory_mb;
        return *this;
    }
    Resources& operator-=(const Resources& less) {
        gpus -= less.gpus;
        cpus -= less.cpus;
        memory_mb -= less.memory_mb;
        return *this;
    }
};
/// What the job has of a node with so many of its GPUs; below 0: what it gives back.
inline Resources resources_of(const JobState& job, std::int64_t gpus) {
    return {gpus, gpus * job.cpus_per_gpu, gpus * job.memory_mb_per_gpu};
}

struct Hold {
    JobId job = 0;      ///< for whom
    double from_s = 0;  ///< by the epoch: the latest start that keeps the promise
    double due_s = 0;   ///< it takes nothing that ends later; 0: nothing ends in time any more
    /// Of a running or waiting elastic job, by index in the snapshot's jobs: it stands behind, and
    /// gives way when the time comes.
    std::vector<bool> gives_way;
    Resources on_node = {};  ///< that it takes of each of its nodes
    /// The same where it differs from node to node; empty: it does not.
    std::map<NodeIndex, Resources> on_each = {};
    [[nodiscard]] const Resources& on(NodeIndex node) const {
        const auto at = on_each.find(node);
        return at == on_each.end() ? on_node : at->second;
    }
};

/// What a node has left over at a hold's time, beside all that is held there then.
struct Spare {
    NodeIndex node = 0;
    std::uint32_t hold = 0;  ///< into Holds::all
    Resources left = {};
    std::uint32_t beside = 0;  ///< other holds that are counted there, a bit each
};

struct Holds {
    static constexpr std::size_t most = 32;  ///< a placement has a bit for each
    std::vector<Hold> all;
    std::vector<Spare> spares;  ///< by node

    [[nodiscard]] bool empty() const { return all.empty(); }
    /// The bit of what is held for the job itself; 0: nothing is.
    [[nodiscard]] std::uint32_t own(const JobState&) const;
    /// Those, a bit each, beyond whose time the task would still stand, with `run_s` to go: by its
    /// time limit, which Slurm enforces, or by its work where that takes longer than the limit was
    /// made for. Without a limit it stands for ever, but for one that was promised an end itself:
    /// that was reckoned with its work. One that gives way does so once it has settled.
    [[nodiscard]] std::uint32_t outlasted_by(const Problem&, const Task&, double run_s,
                                             double later_s = 0) const;
    /// Whether the task would break its own promise with this layout; one that is elastic may begin
    /// with less, and grow.
    [[nodiscard]] bool is_late(const Problem&, const Task&, const Offer&) const;
};

}  // namespace arena
