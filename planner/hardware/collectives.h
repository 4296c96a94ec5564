// SPDX-License-Identifier: GPL-2.0-or-later
// Collective communication by alpha-beta models inside a node and between nodes, with the rule that
// groups which talk at the same time share the node's network adapters: a group with q of a
// node's g GPUs gets q / g of them. All-reduce moves 2 (n - 1) / n of the bytes (Thakur et al.
// 2005).
//
// Rails: GPU i of each node talks to GPU i of others through adapters on one switch, as far as that
// goes. A ring over one GPU of each node stays on its rail; so does one over all of the job's GPUs
// of each node where two share an adapter, and one over two nodes, which turns round in each. Any
// other comes into a node by one adapter and leaves it by another (NCCL before 2.20.3, which learnt
// to alternate), and crosses the spine, where flows on static routes collide (Hoefler, Schneider,
// Lumsdaine 2008, "Multistage switches are not crossbars", who saw factors of up to 1.8). That this
// is why is a conjecture; that such rings are slower, more so in jobs of more nodes, was measured
// on one network, and the form of cross_rail_slowdown() was fitted to it (doc/benchmarks.md).
// All-reduce, reduce-scatter and all-gather between nodes are slowed; all-to-all and transfers
// between stages are not.
#pragma once

#include <cstdint>

#include "base/statistics.h"
#include "core/hardware.h"
#include "core/offer.h"

namespace arena {

/// How a grid is wired. Ranks are laid out tensor-parallel fastest, then data-parallel, then
/// stages, filling one node after the other.
struct Topology {
    Link intra, inter;
    std::int64_t gpus_per_node = 1;  ///< GPUs of this job on each node
    std::int64_t node_gpus = 1;      ///< GPUs that share the node's adapters, >= gpus_per_node
    std::int64_t nodes = 1;          ///< of the job; domains where `intra` joins several nodes
};
/// How far apart the grid's nodes lie, and how many of them an NVLink domain has.
struct Wiring {
    Span span = Span::leaf;
    std::int64_t domain_nodes = 1;  ///< that share one each; 1: no two do
};
Topology make_topology(const GpuType&, const Grid&, std::int64_t site_gpus_per_node,
                       const Wiring& = {});
/// How many of the grid's nodes share a domain at a time, where one has so many: all of them if it
/// holds them; else the largest power of two that divides their number, so that groups do not
/// straddle two domains (64 GPUs of 72). 1: none do.
std::int64_t domain_share(const GpuType&, const Grid&, std::int64_t site_gpus_per_node,
                          std::int64_t domain_nodes);
/// `inter` over this span: with what the levels leave of the rate, and add to the start-up.
Link link_over(const GpuType&, Span);

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

/// (n-1)/n: the share of the buffer that crosses each link in a reduce-scatter or an all-gather.
inline double ring_share(std::int64_t ranks) { return real(ranks - 1) / real(ranks); }

/// How much longer than on rails of its own a ring of the group takes between nodes: 1 +
/// cross_rail_cost * log2(nodes of the job / 2) where it has several but not all of the job's GPUs
/// of each of more than two nodes, else 1.
double cross_rail_slowdown(const Topology&, const Group&);

/// How much longer a job that waits for the slowest of its nodes computes than their mean: 1 +
/// spread * sqrt(2 ln nodes), the bound of the expected largest of so many normal numbers
/// (Boucheron, Lugosi, Massart 2013, section 2.5).
double slowest_node(std::int64_t nodes, double spread);

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
