// SPDX-License-Identifier: GPL-2.0-or-later
// `arena doctor`: what Slurm knows of the network, leaf switches or blocks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/hostlist.h"
#include "base/text.h"
#include "cli/doctor/doctor_parts.h"
#include "core/limits.h"

namespace arena::cli {
namespace {

/// Two leaves whose nodes with GPUs alternate in Slurm's order, which is that of ranks; empty:
/// none.
std::vector<std::string> alternating(const Facts& facts) {
    std::set<std::string> seen;
    std::string last;
    for (const SlurmNode& node : *facts.nodes) {
        const auto at = facts.network->leaf_of.find(node.name);
        if (node.gpu_types.empty() || at == facts.network->leaf_of.end() || at->second == last)
            continue;
        if (!seen.insert(at->second).second) return {last, at->second};
        last = at->second;
    }
    return {};
}

/// Since 26.05 ranks go through leaves or blocks one after the other, but where the site says not
/// to.
bool ranks_follow_network(const Facts& facts) {
    return facts.slurm_version && *facts.slurm_version >= "26.05" &&
           running_value(facts, "SelectTypeParameters").find("CR_NO_DIST_TOPO_BLOCK") ==
               std::string::npos;
}

/// How a site puts the nodes of a leaf together, by release: the last that is not later.
std::string_view order_remedy(const Facts& facts, bool blocks) {
    struct ByRelease {
        bool blocks;
        std::string_view since, words;
    };
    constexpr std::string_view by_name = "name the nodes of a leaf one after the other";
    constexpr std::array<ByRelease, 5> remedies{
        {{false, "22.05", by_name},
         {false, "23.02", "TopologyParam=SwitchAsNodeRank"},
         {true, "23.11", "list the nodes of a block together in slurm.conf"},
         {true, "25.05", "name the nodes of a block one after the other"},
         {true, "25.11", "TopologyParam=BlockAsNodeRank"}}};
    std::string_view words = by_name;
    for (const ByRelease& remedy : remedies)
        if (remedy.blocks == blocks && facts.slurm_version && *facts.slurm_version >= remedy.since)
            words = remedy.words;
    return words;
}

/// Nodes with GPUs below no switch and in no block. Those of which each partition has a topology of
/// its own (25.05) are another one's.
std::vector<std::string> outside(const Facts& facts) {
    std::set<std::string> own;
    if (facts.partitions)
        for (const SlurmPartition& partition : *facts.partitions)
            if (partition.has_topology) own.insert(partition.name);
    std::vector<std::string> lost;
    for (const SlurmNode& node : *facts.nodes) {
        const bool is_another = !node.partitions.empty() &&
                                std::ranges::all_of(node.partitions, [&](const std::string& name) {
                                    return own.contains(name);
                                });
        if (!node.gpu_types.empty() && !facts.network->leaf_of.contains(node.name) && !is_another)
            lost.push_back(node.name);
    }
    return lost;
}

}  // namespace

SlurmNetwork parse_network(std::string_view text) {
    SlurmNetwork network;
    for (const std::string_view line : split(text, '\n')) {
        const bool is_block = line.starts_with("BlockName=");
        if (!is_block && !line.starts_with("SwitchName=")) continue;
        network.blocks = is_block;
        std::string_view nodes;
        const std::string_view name = line.substr(line.find('=') + 1);
        bool is_leaf = true;
        for (const std::string_view word : split(line, ' ')) {
            if (word.starts_with("Nodes=")) nodes = word.substr(6);
            const bool is_above =
                word.starts_with("Switches=") || word.starts_with("AggregatedBlock");
            is_leaf = is_leaf && !is_above;
        }
        const auto names = parse_hostlist(nodes, limits::gpus);
        if (!is_leaf || !names) continue;
        ++network.leaves;
        for (const std::string& node : *names)
            network.leaf_of.emplace(node, name.substr(0, name.find(' ')));
    }
    return network;
}

/// Slurm starts nothing on a node below no switch, and no job on nodes in a block and in none.
std::vector<Finding> check_network(const Facts& facts) {
    if (!facts.nodes) return {};
    const std::string named = running_value(facts, "TopologyPlugin");
    const bool is_named = named == "topology/tree" || named == "topology/block";
    if (!facts.network && !is_named) return {};
    if (!facts.network) return {skip("network", facts.network.error().message())};
    // topology.yaml (25.05) leaves TopologyPlugin as it was.
    const std::int64_t leaves = facts.network->leaves;
    if (!is_named && leaves == 0) return {};
    const bool blocks = leaves > 0 ? facts.network->blocks : named == "topology/block";
    const std::string found = blocks ? "topology/block" : "topology/tree";
    const std::string plugin = found + (named == found ? "" : " of topology.yaml");
    const std::string word = blocks ? "block" : "leaf switch";
    if (const std::vector<std::string> lost = outside(facts); !lost.empty())
        return {warn("network", fmt::format("{}: no {} has {}: {}", plugin, word, join(lost, ", "),
                                            blocks ? "no job has them together with nodes of blocks"
                                                   : "no job is started there"))};
    if (const auto pair = alternating(facts); !pair.empty() && !ranks_follow_network(facts))
        return {
            warn("network",
                 fmt::format("{}: nodes of {} and {} alternate in Slurm's order of nodes, and so "
                             "do the ranks of a job{}; to put them together: {}",
                             plugin, pair[0], pair[1],
                             blocks ? ", so that no plan counts on several NVLink domains" : "",
                             order_remedy(facts, blocks)))};
    return {ok("network", fmt::format("{}: {} {}{}", plugin, leaves, word,
                                      leaves == 1 ? ""
                                      : blocks    ? "s"
                                                  : "es"))};
}

}  // namespace arena::cli
