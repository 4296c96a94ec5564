// SPDX-License-Identifier: GPL-2.0-or-later
// What LoanBook knows, as values, and what follows from it alone: what a round has found
// (LoanView), what no record of Slurm's has (LoanMemory), what administrators did beside Arena
// (LoanHands), and what is to be done (LoanPlan). Nothing here calls Slurm or logs: LoanBook does.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugin/sched/host/host.h"
#include "plugin/sched/loans/loan_net.h"
#include "plugin/sched/loans/loan_steps.h"
#include "site/config.h"

namespace arena {

using Leases = std::map<std::string, Lease, std::less<>>;  ///< by node

/// What a round has found.
struct LoanView {
    LoanFacts facts;
    bool is_read = false;  ///< facts are of the last round
    Leases leases;         ///< as Slurm's records have them
    std::vector<NodeState> states;
    std::map<std::string, NodeIndex, std::less<>> index;
    std::set<std::string> used, inferences;  ///< nodes with jobs of others, and of inference
    std::set<std::string> others;  ///< of those, with jobs that the partition has not lent them to
    double time_s = 0;             ///< epoch seconds
};
LoanPlaces places_of(const Config& config);
/// Nodes, and who is where; after the facts are read.
void note_cluster(const ClusterView& cluster, LoanView& view);
/// Those of the cluster with a lease or a guard.
std::set<std::string> nodes_concerned(const LoanView& view);
/// The partition of inference whose node it is; "inference" where it is of none.
std::string partition_of(const LoanFacts& facts, const std::string& node);
/// Whether the node's guard is called after its lease. One without a lease is.
bool has_own_guard(const std::string& node, const std::optional<Lease>& lease,
                   const LoanView& view);
/// As far as Slurm's records say: without what is saved, open and gone.
LoanNode node_as_seen(const std::string& node, const LoanView& view);
/// Nodes of inference's that it has not got: leased ones, and those that came home just now.
LoanNet::Places places_not_there(const LoanView& view, const std::map<std::string, double>& home);
/// The highest number of a lease that a reservation is called after; 0: none.
LoanNumber newest_loan(const LoanFacts& facts);

/// What no record of Slurm's has: for the book of another configuration, too.
struct LoanMemory {
    /// When a returning node is to be back, by the monotonic clock.
    struct Deadline {
        Lease lease;
        double total_s = 0, end_s = 0;
    };
    struct Counts {
        std::uint64_t leases = 0, returns = 0, late = 0, preemptions = 0, scaled_in = 0, lost = 0;
        std::uint64_t let_end = 0, overstayed = 0;  ///< of those: told to leave all the same
        std::map<std::string, double> lent_gpu_s;   ///< by account
    };
    Leases known;  ///< as they were left: what differs is somebody else's doing
    std::map<std::string, Deadline> deadlines;
    std::set<std::string> saved;  ///< nodes whose guard is on disk
    Counts counts;
    LoanNumber newest = 0;
    double steady_s = 0;  ///< of the last round, by the monotonic clock; 0: none has been
};
/// Nodes that are lent.
std::size_t lent_nodes(const LoanMemory& memory);
/// Leased nodes among these, in their order: what a job's AdminComment says.
std::vector<std::string> lent_among(const LoanMemory& memory,
                                    const std::vector<std::string>& nodes);
bool is_open(LeaseState state);  ///< offered or lent: not asked back
std::vector<std::string> open_leases(const LoanMemory& memory);

/// What others did to what is Arena's.
struct LoanHands {
    std::map<std::string, std::string> broken;       ///< node: why, as the log has it
    std::set<std::string> taken_out, put_in;         ///< of the partition, by an administrator
    std::optional<std::vector<std::string>> listed;  ///< as it was set last
    std::int64_t configured = 0;                     ///< LoanFacts::configured of the last round
};
/// Nodes that left and came to the partition by somebody else's hand.
struct ListChange {
    std::vector<std::string> gone, come;
};
/// Notes it. Slurm itself goes back to the list of slurm.conf when it reads that again.
ListChange note_list(const LoanFacts& facts, LoanHands& hands);

/// What is to be done in a round.
struct LoanPlan {
    struct Node {
        std::string node;
        LoanNode is;
        LoanStep step;
        LoanFacts::Guard guard;  ///< that it has, whatever it is called
        bool failed = false;     ///< to set the guard
    };
    std::vector<Node> nodes;
    std::vector<std::string> list;                    ///< that the partition is to have
    std::map<JobId, std::vector<std::string>> moves;  ///< job: returning nodes that it has
    std::set<JobId> must_end;                         ///< its deadline is near
};
/// As long as there are jobs that may have lent nodes it has theirs: Slurm takes no update of a job
/// whose first partition is without nodes, and that is where such a job last ran.
std::vector<std::string> nodes_to_list(const LoanPlan& plan, const LoanFacts& facts,
                                       const LoanHands& hands);

}  // namespace arena
