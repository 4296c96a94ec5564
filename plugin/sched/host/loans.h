// SPDX-License-Identifier: GPL-2.0-or-later
// HostLoans: what lending nodes of inference needs of slurmctld. A part of Host; asked of it only
// where something is lent or may be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace arena {

/// What keeps a node of inference from its jobs, in Arena's name: a reservation called after the
/// lease, which outlives slurmctld. Jobs of the partition for lent nodes pass one that says `lent`.
enum class LoanGuard { none, lent, returning };

/// Which partitions are meant.
struct LoanPlaces {
    std::vector<std::string> inference;
    std::string partition;  ///< of lent nodes
    bool operator==(const LoanPlaces&) const = default;
};

struct LoanFacts {
    struct Job {
        std::uint32_t id = 0;
        bool inference = false;    ///< of an inference partition
        bool pending = false;      ///< could start, were there room
        bool preemptable = false;  ///< runs in the partition for lent nodes, and is not ending
        bool is_foreign = false;   ///< Arena cannot end it
        std::string account = {};
        std::string gpu_type = {};  ///< that it asks for; "" = any
        std::int64_t gpus = 0;      ///< that it asks for, with all its tasks
        std::int64_t nodes_asked = 0;
        std::int64_t tasks = 1;  ///< of an array, that have no record of their own
        std::vector<std::string> partitions = {};  ///< of inference's, that it asks for, ascending
        /// Running or completing: its nodes, and its GPUs on each.
        std::vector<std::pair<std::string, std::int64_t>> nodes = {};
        [[nodiscard]] bool is_on(const std::string& node) const {
            return std::any_of(nodes.begin(), nodes.end(),
                               [&](const auto& part) { return part.first == node; });
        }
    };
    struct Guard {
        LoanGuard kind = LoanGuard::none;
        std::string lease = {};  ///< "L7"
        bool operator==(const Guard&) const = default;
    };
    bool has_partition = false;
    std::vector<std::string> listed;  ///< nodes of that partition, ascending
    /// Nodes of the other partitions of jobs that may have lent ones, ascending.
    std::vector<std::string> training;
    std::map<std::string, std::vector<std::string>> inference;  ///< partition: nodes, ascending
    std::vector<Job> jobs;                ///< all that hold a node, and waiting ones of inference
    std::map<std::string, Guard> guards;  ///< by node
    bool preempts = false;        ///< Slurm takes jobs of that partition off for inference's
    double grace_s = 0;           ///< how long it lets them run then: the partition's GraceTime
    std::int64_t configured = 0;  ///< epoch seconds: when Slurm read its configuration last
    double kill_wait_s = 30;
};

class HostLoans {
  public:
    virtual ~HostLoans() = default;
    virtual LoanFacts read_loans(const LoanPlaces& places) = 0;
    /// These are its nodes from now on; running jobs stay. "" or why not.
    virtual std::string set_partition(const std::string& partition,
                                      const std::vector<std::string>& nodes) = 0;
    /// In place of whatever guard of Arena's the node has; never for a moment without one where
    /// both are one. A guard that is set is on disk then: it outlives a kill. "" or why not.
    virtual std::string guard(const std::string& node, const LoanFacts::Guard& guard) = 0;
    /// What was written of nodes is on disk then, not some seconds later. "" or why not.
    virtual std::string save_nodes() = 0;
};

}  // namespace arena
