// SPDX-License-Identifier: GPL-2.0-or-later
// Collective communication by alpha-beta models inside a node and between nodes, with the rule that
// groups which talk at the same time share the node's network adapters: a group with q of a
// node's g GPUs gets q / g of them. All-reduce moves 2 (n - 1) / n of the bytes (Thakur et al.
// 2005).
//
// Rails: GPU i of each node talks to GPU i of others through adapters on one switch, as far as that
// goes. A ring over one GPU of each node stays on its rail, and so does one over all GPUs of a node
// (two GPUs share an adapter) or over two nodes (it turns round in each). Any other enters a node
// by one adapter, leaves it by another, and crosses the spine, where flows on static routes
// collide, the more nodes the more often (Hoefler, Schneider, Lumsdaine 2008, "Multistage switches
// are not crossbars"). What that costs is the network's: Link::cross_rail_cost.
#pragma once

#include <cstdint>

#include "core/values.h"

namespace arena {

/// How a grid is wired. Ranks are laid out tensor-parallel fastest, then data-parallel, then
/// stages, filling one node after the other.
struct Topology {
    Link intra, inter;
    std::int64_t gpus_per_node = 1;  ///< GPUs of this job on each node
    std::int64_t node_gpus = 1;      ///< GPUs that share the node's adapters, >= gpus_per_node
    std::int64_t nodes = 1;          ///< of the job
};
Topology make_topology(const GpuType&, const Grid&, std::int64_t site_gpus_per_node);

/// A communicator: `size` ranks, `per_node` of them on each node it touches.
struct Group {
    std::int64_t size = 1, per_node = 1;
    [[nodiscard]] std::int64_t nodes() const { return (size + per_node - 1) / per_node; }
};
Group tp_group(const Topology&, std::int64_t tp);
/// Ranks `stride` apart: data parallel over groups of tp (and cp) ranks.
Group dp_group(const Topology&, std::int64_t dp, std::int64_t stride);
/// Neighbours in rank order: context parallel (stride tp), expert parallel (stride 1).
Group strided_group(const Topology&, std::int64_t size, std::int64_t stride);

/// How much longer than on rails of its own a ring of the group takes between nodes, >= 1.
double cross_rail_slowdown(const Topology&, const Group&);

/// Seconds; `bytes` is the size of the whole buffer on each rank. 0 for a group of one.
double all_reduce_s(const Topology&, const Group&, double bytes);
double reduce_scatter_s(const Topology&, const Group&, double bytes);
double all_gather_s(const Topology&, const Group&, double bytes);  ///< bytes of the gathered buffer
/// Each rank sends an equal part of `bytes` to every rank of the group, itself included.
double all_to_all_s(const Topology&, const Group&, double bytes);
double point_to_point_s(const Topology&, bool crosses_nodes, double bytes);

/// Whether any rank pair of stages i and i+1 (stage_gpus ranks each) sits on two nodes.
bool boundary_crosses(const Topology&, std::int64_t stage, std::int64_t stage_gpus);

}  // namespace arena
