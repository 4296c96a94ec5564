// SPDX-License-Identifier: GPL-2.0-or-later
// Slurm's tables -> plain values: nodes, partitions, what jobs hold, and the nodes that a job may
// have. Callers hold the locks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "plugin/sched/slurm/host_slurm_nodes.h"
#include "plugin/sched/slurm/slurm_util.h"

namespace arena {

/// Index in our snapshot of each Slurm node index, the first where a node has several entries;
/// defunct slots are left out.
struct NodeTable {
    std::vector<std::int32_t> ours;                 ///< by Slurm index, -1 = none
    const std::vector<NodeState>* nodes = nullptr;  ///< nullptr: each node has one entry
};

/// What changes when Slurm reads its configuration again, and with it the tables that we count by.
struct TablesStamp {
    time_t configured = slurm_conf.last_update;
    int nodes = node_record_count;
    const void* table = node_record_table_ptr;
    bool operator==(const TablesStamp&) const = default;
};

NodeTable read_nodes(ClusterView& view);
/// Neither down nor drained: takes jobs, at the latest when those that run there have ended.
bool node_is_up(const node_record_t* node);
/// Those that take new jobs, with their nodes.
void read_partitions(ClusterView& view, const NodeTable& table);
/// What the job holds, by our nodes; those without cores' counts were never given any. Of a node of
/// several GPU types CPUs and memory stand with the first of its entries.
Occupied occupied_by(const job_record_t* job, const NodeTable& table);
/// Of each of its nodes the entry whose GPUs it holds, ascending; the first where it holds none.
std::vector<NodeIndex> entries_held(const Occupied& held, const NodeTable& table);

/// Where jobs of one class may stand.
struct Placed {
    std::uint32_t node_set = 0;
    std::vector<PartitionSlot> slots;
    std::string no_place, no_nodes;  ///< as in JobView
    bool is_cut = false;             ///< as there
    double tier = 0;
};

/// The places of jobs, as sets of nodes of the view.
class NodeSets {
  public:
    /// `lent_in`: as node_choices() has it; "" = nothing is lent.
    NodeSets(ClusterView& view, const NodeTable& table, std::string lent_in)
        : view_(view), table_(table), lent_in_(std::move(lent_in)) {}
    /// Good until the next call.
    const Placed& of(job_record_t* job);
    /// As nodes of the view, ascending; none of nullptr.
    [[nodiscard]] std::vector<NodeIndex> ours(const bitstr_t* nodes) const;

  private:
    /// What the places of a job depend on. Most jobs of a long queue have it in common, and what a
    /// reservation leaves takes Slurm long to say.
    using NodeClass =
        std::tuple<std::string, std::string, std::string, std::string, std::string,
                   const part_record_t*, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                   std::uint32_t, std::uint16_t, std::uint16_t, std::uint16_t, std::uint8_t,
                   std::uint16_t, std::uint16_t, std::uint16_t>;

    static std::optional<NodeClass> node_class(const job_record_t* job);
    Placed look_up(job_record_t* job);
    std::string why_no_nodes(const job_record_t* job, const PartitionTries& tries);
    [[nodiscard]] bool has_gpus(std::uint32_t node_set) const;
    std::uint32_t intern(const bitstr_t* nodes);

    ClusterView& view_;
    const NodeTable& table_;
    std::string lent_in_;
    std::map<std::vector<NodeIndex>, std::uint32_t> seen_;
    std::map<NodeClass, Placed> classes_;
    Placed last_;  ///< of a job without a class
};

}  // namespace arena
