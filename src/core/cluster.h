// SPDX-License-Identifier: GPL-2.0-or-later
// What a policy sees: nodes, jobs and their offers at one moment.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/offer.h"

namespace arena {

using JobId = std::uint32_t;
using NodeIndex = std::uint32_t;  ///< index into Snapshot::nodes

/// What Slurm's topology plug-in says of the network. `flat`: nothing. `tree`: switches above
/// switches; a job of several nodes has them under one topmost switch. `block`: nodes in blocks; a
/// job has them in as few blocks as its number of nodes needs.
enum class NetworkKind { flat, tree, block };

std::string_view to_string(NetworkKind);
std::optional<NetworkKind> parse_network_kind(std::string_view);

/// A switch, or a block.
struct Switch {
    std::string name = {};
    std::int32_t above = -1;  ///< index of the switch that it hangs on; -1: none is above it
    bool operator==(const Switch&) const = default;
};

/// Collects the switches of many nodes: each path of names becomes an index. A switch has the same
/// name twice where it hangs on different ones.
class SwitchTable {
  public:
    /// Index of the last switch of the path, outermost first; -1 for an empty one.
    std::int32_t add(const std::vector<std::string>& path);
    [[nodiscard]] std::vector<Switch> take() { return std::move(switches_); }

  private:
    std::vector<Switch> switches_;
    std::map<std::pair<std::int32_t, std::string>, std::int32_t> known_;
};

/// Names from the outermost switch to this one; none for -1.
std::vector<std::string> path_of(const std::vector<Switch>&, std::int32_t leaf);

struct NodeState {
    std::string name = {};
    std::string gpu_type = {};  ///< GRES type name; "" = no typed GPU
    std::int64_t total_gpus = 0;
    std::int64_t free_gpus = 0;  ///< 0 when the node is down, drained or reserved for others
    std::int64_t free_cpus = 0;
    std::int64_t free_memory_mb = 0;
    bool up = true;          ///< takes jobs, now or when those that run there have ended
    std::string lent = {};   ///< the loan by which it is here; "" = it is nobody else's
    double returning_s = 0;  ///< seconds since the epoch: when it is to be back; 0 = it stays
    double slow = 1;         ///< times slower than its like, confirmed; 1 = as far as known not
    /// GPUs of another type in the node of the entry before: the same name, CPUs and memory. What
    /// is free of these is stated in each of the node's entries, and goes from all of them.
    bool same_node = false;
    std::int32_t leaf = -1;   ///< index into Snapshot::switches of what it hangs on; -1: nothing
    std::int64_t weight = 1;  ///< Slurm's: nodes of a lower weight are taken first
    double boot_s = 0;        ///< seconds until it can start a job, at most; 0: it is up
    bool operator==(const NodeState&) const = default;
};

/// The entries [first, last) of one node: as many as it has GPU types, one where it has none.
struct NodeParts {
    NodeIndex first, last;
};
inline NodeParts parts_of(const std::vector<NodeState>& nodes, NodeIndex index) {
    NodeParts parts{index, index + 1};
    while (nodes[parts.first].same_node) --parts.first;
    while (parts.last < nodes.size() && nodes[parts.last].same_node) ++parts.last;
    return parts;
}
/// GPUs of all its types.
inline std::int64_t gpus_of_node(const std::vector<NodeState>& nodes, NodeIndex index) {
    std::int64_t gpus = 0;
    const NodeParts parts = parts_of(nodes, index);
    for (NodeIndex n = parts.first; n < parts.last; ++n) gpus += nodes[n].total_gpus;
    return gpus;
}
/// Adds to what is free of an entry's GPUs, and of its node's CPUs and memory; negative takes.
inline void give_to_node(std::vector<NodeState>& nodes, NodeIndex index, std::int64_t gpus,
                         std::int64_t cpus, std::int64_t memory_mb) {
    nodes[index].free_gpus += gpus;
    const NodeParts parts = parts_of(nodes, index);
    for (NodeIndex n = parts.first; n < parts.last; ++n) {
        nodes[n].free_cpus += cpus;
        nodes[n].free_memory_mb += memory_mb;
    }
}

/// Nodes of which a job takes all its nodes: those of one partition, within that one's limits.
struct Place {
    std::uint32_t node_set = 0;  ///< index into Snapshot::node_sets
    std::int64_t min_nodes = 1, max_nodes = INT64_MAX;
    std::int64_t max_cpus_per_node = INT64_MAX;       ///< of one job
    std::int64_t max_memory_mb_per_node = INT64_MAX;  ///< of one job
    /// Another network than Snapshot's places its jobs: that one's limits are none here.
    bool other_network = false;
    auto operator<=>(const Place&) const = default;
};

/// GPUs, CPUs and memory that nobody in the snapshot may have until they come back: of jobs that
/// are not in it.
struct Occupied {
    struct Part {
        NodeIndex node = 0;
        std::int64_t gpus = 0, cpus = 0, memory_mb = 0;
        bool operator==(const Part&) const = default;
    };
    JobId job = 0;     ///< whose
    double end_s = 0;  ///< at the latest, by the epoch; infinite: nobody knows
    std::vector<Part> parts;
    bool operator==(const Occupied&) const = default;
};

/// Jobs of a higher PriorityTier go first, whatever their priorities: a job's priority is its
/// tier's number times this, and what Slurm gives it within the tier, which is less.
inline constexpr double tier_size = 4294967296.0;

enum class JobPhase { pending, running };

/// What each of a job's last moves took, in whole seconds without progress: from the signal until
/// it had left, and from its start to its first step. Measured ones first, in any order; 0: none.
using MovesTook = std::array<std::int64_t, 3>;
/// One more; beyond three the oldest is dropped.
inline void add_move(MovesTook& took, std::int64_t took_s) {
    auto free = std::find(took.begin(), took.end(), 0);
    if (free == took.end()) free = std::rotate(took.begin(), took.begin() + 1, took.end());
    *free = took_s;
}

struct JobState {
    JobId id = 0;
    JobPhase phase = JobPhase::pending;
    double priority =
        0;  ///< larger first: tier, and what Slurm would give the job were it not held
    double submit_s = 0;                 ///< seconds since the epoch
    double age_s = 0;                    ///< since eligible
    std::vector<std::string> gpu_types;  ///< allowed GRES types; empty = any mapped type
    std::int64_t min_gpus = 1;
    std::int64_t max_gpus = 1;  ///< INT64_MAX = no limit
    std::int64_t cpus_per_gpu = 1;
    std::int64_t memory_mb_per_gpu = 0;
    std::uint32_t node_set = 0;  ///< index into Snapshot::node_sets: nodes the job may use
    std::vector<Place>
        places;  ///< parts of them that it may not mix, the preferred first; empty: one
    double remaining_iterations = 0;  ///< 0 = unknown: the time limit stands for it
    bool overrun =
        false;  ///< has done all that its user said, and runs on: remaining_iterations is 1
    double time_limit_s = 0;  ///< 0 = unlimited; of a running job what is left of it
    bool elastic = false;
    std::int64_t restarts = 0;     ///< starts and changes of the GPU set so far
    std::optional<Offer> current;  ///< shape it runs with, or waits with
    std::vector<NodeIndex>
        nodes;  ///< running: the nodes it holds, current->grid.gpus_on() GPUs on each
    double patient_until_s = 0;  ///< waiting for GPUs on fewer nodes: the first such time of
                                 ///< Decision::patience; 0: never
    double due_s = 0;            ///< promised (policy/order/promises.h): it ends by then, by the
                                 ///< epoch; 0: nothing is promised
    /// Elastic: for so many seconds from when it gets other GPUs it is not moved. Running and not
    /// elastic now: it will be in so many seconds; 0: never.
    double settles_s = 0;
    MovesTook moves_took_s{};    ///< see RestartCost
    double start_s = 0;          ///< running: when it got these GPUs
    double done_iterations = 0;  ///< of all its runs
    double attained_gpu_s = 0;   ///< GPU-seconds held so far
    std::string requested_type;  ///< what the user would ask of Slurm without Arena; "" = nothing
    std::int64_t requested_gpus = 0;
    std::string account;    ///< whose share it counts against
    bool ordinary = false;  ///< waiting: Slurm starts it, as its user asked; no decision does
    /// An ordinary job stands before it, and waits for nodes that it may have. Waiting, it gets
    /// only what is idle: nobody makes room. Running, it keeps what it has or leaves all of it:
    /// while it moved, the other one would get its nodes.
    bool behind_ordinary = false;
    bool operator==(const JobState&) const = default;
};

/// The cluster at one moment. nodes and jobs in any order; node_sets hold sorted node indices.
struct Snapshot {
    double time_s = 0;
    std::uint64_t generation = 0;
    std::vector<NodeState> nodes;
    std::vector<std::vector<NodeIndex>> node_sets;
    std::vector<JobState> jobs;
    std::vector<Occupied> others = {};  ///< what is not free because of jobs that are not in `jobs`
    NetworkKind topology = NetworkKind::flat;
    std::vector<Switch> switches = {};  ///< each after the one above it
    bool operator==(const Snapshot&) const = default;
};

/// Offers per job id; a job without an entry cannot be placed.
using Offers = std::map<JobId, SharedOffers>;

// With "schema_version":1; the readers as in core/plan.h.
std::string to_json(const Snapshot&);
std::string to_json(const Offers&);
Result<Snapshot> parse_snapshot(std::string_view);
Result<Offers> parse_offers(std::string_view);

}  // namespace arena
