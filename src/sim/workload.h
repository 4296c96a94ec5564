// SPDX-License-Identifier: GPL-2.0-or-later
// A trace bound to a cluster and a throughput table: every job with its offers, its request and the
// truth that only the simulator knows. The same feasibility for every policy: an offer exists only
// for a (type, count) with a usable row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/policy.h"
#include "sim/inputs.h"

namespace arena::sim {

/// How jobs stand on nodes: real packing, or one pool per GPU type (a single large node).
enum class PlacementRule { nodes, pools };

struct Errors {
    double estimate_sigma = 0;  ///< one factor exp(N(0, sigma)) per job and offer
    /// One per job, on its iterations: it does other work than the trace says.
    double work_sigma = 0;
    std::uint64_t seed = 0;
    /// One per job, on what its user says of its work and its time limit: it does the trace's work.
    double said_sigma = 0;
    /// The same by this share of the users, who are off by wrong_by, half of them up, half down.
    double wrong_share = 0, wrong_by = 0.6;
    /// This share of the users says lie_factor of its work. Time limits stay: else Slurm would end
    /// their jobs.
    double liar_share = 0;
    static constexpr double lie_factor = 0.01;
};

/// What all jobs of one model and batch share. Offers: one per (type, count) with the time of the
/// fastest layout in the table, on the fewest nodes of this cluster that hold it, fastest first;
/// where that one needs a domain, the fastest that needs none, too.
struct Profile {
    std::string model;
    std::int64_t batch = 0;
    SharedOffers offers;
    /// By offer: the part of an iteration that is communication; below 0: not known.
    std::vector<double> communication_shares = {};
};

struct SimJob {
    std::string name;
    /// What it did is a recorded run: as requested it takes as long, its first start-up included.
    bool recorded = false;
    bool rigid = false;     ///< its model is not known: only as requested, and its work is hidden
    double started_s = -1;  ///< when that run began, by time zero; below 0: not known
    double submit_s = 0;    ///< from time zero = the first kept job
    double iterations = 0;  ///< of the trace
    std::uint32_t profile = 0;  ///< into Workload::profiles
    std::uint32_t asked = 0;    ///< offer of the profile that stands for the request
    std::uint32_t account = 0;  ///< into Workload::accounts
    double priority = 0;
    double time_limit_s = 0;    ///< user's limit for a run with the request
    bool limit_stated = false;  ///< by the trace
};

struct Workload {
    std::vector<NodeState> nodes;
    /// A tree with leaf_nodes, blocks with domain_nodes; with pools flat.
    NetworkKind topology = NetworkKind::flat;
    std::vector<Switch> switches;
    std::vector<PowerRule> power;  ///< by node; with pools, and where no node sleeps, empty
    std::vector<NodeIndex> inference_nodes;  ///< ascending; with pools none
    std::vector<std::string> gpu_types;
    std::vector<Profile> profiles;
    std::vector<SimJob> jobs;           ///< by submission
    std::vector<std::string> accounts;  ///< "" is the first
    std::map<std::string, double> shares;
    std::int64_t dropped = 0;  ///< jobs without any row on this cluster's types
    [[nodiscard]] std::int64_t gpus() const;
    /// Factors of the truth, and of what users say, fixed by the seed: 1 when the sigma is 0.
    [[nodiscard]] static double work_factor(const Errors&, std::uint32_t job);
    [[nodiscard]] static double said_factor(const Errors&, std::uint32_t job);
    /// Whether the job's user lies: by the seed alone, as is_elastic().
    [[nodiscard]] static bool is_liar(const Errors&, std::uint32_t job);
    [[nodiscard]] static double time_factor(const Errors&, std::uint32_t job, std::size_t offer);
    /// Whether the job is elastic, where that is so of this share of all: by the seed alone, so
    /// that the same jobs are under every policy, and those of a smaller share are among those of a
    /// larger one.
    [[nodiscard]] static bool is_elastic(double share, std::uint64_t seed, std::uint32_t job);
    /// How many times as long as the job's run its user's limit is where nobody stated one: 1 to 5.
    [[nodiscard]] static double limit_factor(std::uint64_t seed, std::uint32_t job);
};

struct WorkloadOptions {
    PlacementRule placement = PlacementRule::nodes;
    std::int64_t iteration_divisor = 5;  ///< iterations = max(1, num_iteration / divisor)
    double limit_slack_s = 70;  ///< user's limit = exact run time + this where none is given
    std::string trace_name;     ///< for messages
};

/// The nodes of a cluster, all free, and what they hang on. Leaves are full one after the other,
/// and of one group; pods and racks, too. One core switch has all leaves. Nodes of racks are in
/// blocks, as Slurm's topology/block has them.
Snapshot lay_out(const Cluster&);

/// A request without a row becomes the nearest larger count of its type with one, else the largest;
/// a type without any row becomes the first type of the cluster that has one, by the same rule.
/// Counts beyond the cluster's GPUs of a type are no offers. Of two offers of a count the request
/// is that which needs no domain. A job without a model has one offer:
/// what it asked for, at 1 s an iteration. Errors: models or GPU types that
/// neither the table nor the cluster know, by the trace's file:line.
Result<Workload> bind_workload(const Cluster&, const std::vector<TraceJob>&, const Throughputs&,
                               const WorkloadOptions&);

}  // namespace arena::sim
