// SPDX-License-Identifier: GPL-2.0-or-later
// Where a profile run goes, or what it has to wait for: pure rules over the snapshot, what Slurm
// has refused lately, and whose turn it is.
#pragma once

#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugin/sched/host/host.h"
#include "plugin/sched/host/refusals.h"
#include "request/request.h"

namespace arena {

/// What ready jobs are about to take of a node.
struct Taken {
    std::int64_t gpus = 0, cpus = 0, memory_mb = 0;
};

/// What a waiting job needs measured.
struct ProfileNeed {
    const Request* request = nullptr;
    std::string fingerprint;  ///< of its model
    JobId job = 0;
    std::uint32_t user_id = 0;
    std::string gpu_type, hardware, partition;
    std::int64_t max_gpus = 1, gpus_per_node = 1;
    const std::vector<NodeIndex>* nodes = nullptr;  ///< where the job may run
    const std::vector<Taken>* taken = nullptr;  ///< of each node, by jobs before it; null: nothing
    double eligible_s = 0;                      ///< since when it may run
    double ordinary_start_s = INFINITY;         ///< as in JobView
    /// Of the monotonic clock: a run that has not begun by then is not waited for.
    double wait_until_s = INFINITY;
};

/// A node that could measure, and through which partition.
struct RunPlace {
    NodeIndex node = 0;
    std::string partition;
    std::string asked;  ///< the partition for GPUs of the type, as people are told
};

/// Nodes of the type that the job may use and that a partition of profile runs has: `own`, else the
/// job's.
std::vector<RunPlace> run_places(const ProfileNeed& need, const ClusterView& view,
                                 const std::string& own);
/// Why there are none.
std::string no_place_text(const ProfileNeed& need, const ClusterView& view, const std::string& own);
bool has_type(const ClusterView& view, const std::string& partition, const std::string& gpu_type);

/// What Slurm did not give to runs.
struct RunRefusals {
    explicit RunRefusals(double backoff_s);
    void forget_old(const ClusterView& view);

    Refusals nodes;
    Refusals partitions;  ///< by what was asked of them
    Refusals users;       ///< whose own limits leave no run, by user id
};

/// Whether there is no place, or none whose partition takes a run: nothing that ends by itself.
bool all_closed(const std::vector<RunPlace>& places, const RunRefusals& refusals, double now_s);

/// What one run asks for.
struct PlaceNeed {
    const std::vector<RunPlace>& places;
    const std::set<std::string>& failed_on;  ///< nodes to be tried when there is no other
    /// Nodes that users before this one could have, by index; nothing: they take all turns.
    std::optional<std::vector<bool>> kept;
    const std::vector<Taken>* taken = nullptr;  ///< as in ProfileNeed
    double most_boot_s = INFINITY;  ///< a node that needs longer to wake up is left asleep
};

/// Whether a run may go to the node as far as its power is concerned: it is awake, or wakes up soon
/// enough. None goes to one that did not wake up a moment ago.
bool can_wake(const ClusterView& view, NodeIndex node, double most_boot_s);

struct RunPlacement {
    enum class Outcome {
        found,
        closed,        ///< see all_closed()
        behind_jobs,   ///< ready jobs before it take the nodes
        behind_runs,   ///< runs have them, which end soon, in the order of their jobs
        behind_users,  ///< those are kept for users who have had fewer runs
        resting,       ///< they refused a moment ago
        asleep,        ///< one that is free would have to boot, and that lasts too long or failed
        none_free,
    };
    Outcome outcome = Outcome::none_free;
    const RunPlace* place = nullptr;  ///< found
    std::size_t runs = 0;             ///< behind_runs
    std::string node = {};            ///< resting, asleep: the first of them
};

/// The place for it beside what is taken; null: there is none now.
const RunPlace* pick_place(const PlaceNeed& need, const ClusterView& view,
                           const RunRefusals& refusals);
/// The same, and why there is none.
RunPlacement place_run(const PlaceNeed& need, const ClusterView& view, const RunRefusals& refusals);

/// CPUs and memory that a run asks for with its GPU.
struct RunShare {
    std::int64_t cpus = 1, memory_mb = 0;
};
RunShare run_share(const RunPlace& place, const ClusterView& view, const std::vector<Taken>* taken);

}  // namespace arena
