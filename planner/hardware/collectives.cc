// SPDX-License-Identifier: GPL-2.0-or-later
#include "planner/hardware/collectives.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/statistics.h"

namespace arena {

namespace {

/// Of 1 and more. Exact for powers of two, as which most groups come, and without a call for these.
double log2_of(std::int64_t count) {
    const auto bits = static_cast<std::uint64_t>(count);
    return (bits & (bits - 1)) == 0 ? std::countr_zero(bits) : std::log2(real(count));
}

/// Start-up of a collective over n ranks: 50 us for 2 and 80 us for 8 ranks at a 10 us link, as
/// measured for NCCL on A100 (vTrain's published tables); linear because rings are.
double start_up_s(double link_alpha_s, std::int64_t ranks) {
    return link_alpha_s * (4 + real(ranks) / 2);
}

/// One pass (reduce-scatter or all-gather) inside a node.
double intra_pass_s(const Topology& t, std::int64_t ranks, double bytes) {
    if (ranks <= 1) return 0;
    return start_up_s(t.intra.alpha_s, ranks) / 2 + bytes * ring_share(ranks) / t.intra.bytes_per_s;
}

double rank_share_of_network(const Topology& t) { return t.inter.bytes_per_s / real(t.node_gpus); }

double inter_alpha_s(const Topology& t, std::int64_t nodes) {
    return t.inter.alpha_s * (2 + log2_of(nodes));
}

/// Inside each node first, then each rank its part between nodes.
double hierarchical_pass_s(const Topology& t, const Group& group, double bytes) {
    const std::int64_t nodes = group.nodes();
    const double part = bytes / real(group.per_node);
    return intra_pass_s(t, group.per_node, bytes) + inter_alpha_s(t, nodes) +
           part * ring_share(nodes) * cross_rail_slowdown(t, group) / rank_share_of_network(t);
}

/// The bytes of one ring through all ranks: as fast as its slowest link.
double ring_bytes_s(const Topology& t, const Group& group, double bytes) {
    const double network =
        rank_share_of_network(t) * real(group.per_node) / cross_rail_slowdown(t, group);
    return bytes * ring_share(group.size) / std::min(t.intra.bytes_per_s, network);
}

/// Half of an all-reduce.
double pass_s(const Topology& t, const Group& group, double bytes) {
    if (group.size <= 1) return 0;
    if (group.nodes() <= 1) return intra_pass_s(t, group.size, bytes);
    const double ring_start =
        inter_alpha_s(t, group.nodes()) + start_up_s(t.intra.alpha_s, group.size) / 2;
    return std::min(hierarchical_pass_s(t, group, bytes),
                    ring_start + ring_bytes_s(t, group, bytes));
}

/// A reduce-scatter or an all-gather. NCCL runs all-reduces of many ranks as trees; before its
/// version 2.23 it has nothing but rings for these. A hop takes 14 us between nodes and 3.4 us
/// inside one (its own table of latencies, src/graph/tuning.cc: rings, protocol Simple), here
/// shares of the links' alphas.
double ring_pass_s(const Topology& t, const Group& group, double bytes) {
    const std::int64_t nodes = group.nodes();
    if (nodes <= 1) return pass_s(t, group, bytes);
    const double hops =
        t.inter.alpha_s / 2 * real(nodes - 1) + t.intra.alpha_s / 3 * real(group.size - nodes);
    const double least = inter_alpha_s(t, nodes) + start_up_s(t.intra.alpha_s, group.per_node) / 2;
    const double start = std::max(hops, least);
    return std::min(hierarchical_pass_s(t, group, bytes) + start - least,
                    start + ring_bytes_s(t, group, bytes));
}

}  // namespace

Link link_over(const GpuType& type, Span span) {
    Link link = type.inter;
    for (std::size_t level = 0; level < static_cast<std::size_t>(span); ++level) {
        link.bytes_per_s /= type.uplinks[level].oversubscription;
        link.alpha_s += type.uplinks[level].alpha_s;
    }
    return link;
}

std::int64_t domain_share(const GpuType& type, const Grid& grid, std::int64_t site_gpus_per_node,
                          std::int64_t domain_nodes) {
    const std::int64_t node = std::max(grid.gpus_per_node, site_gpus_per_node);
    const std::int64_t most = std::min(domain_nodes, type.domain_gpus / node);
    if (most <= 1 || grid.nodes <= most) return most <= 1 ? 1 : grid.nodes;
    std::int64_t nodes = 1;
    while (2 * nodes <= most && grid.nodes % (2 * nodes) == 0) nodes *= 2;
    return nodes;
}

/// A domain is to its ranks what a node is elsewhere: `intra` joins them.
Topology make_topology(const GpuType& type, const Grid& grid, std::int64_t site_gpus_per_node,
                       const Wiring& wiring) {
    const std::int64_t node = std::max(grid.gpus_per_node, site_gpus_per_node);
    const std::int64_t nodes = wiring.domain_nodes;
    Link inter = link_over(type, wiring.span);
    inter.bytes_per_s *= real(nodes);
    return {type.intra, inter, nodes * grid.gpus_per_node, nodes * node,
            (grid.nodes + nodes - 1) / nodes};
}

Group tp_group(const Topology& t, std::int64_t tp) { return {tp, std::min(tp, t.gpus_per_node)}; }

Group dp_group(const Topology& t, std::int64_t dp, std::int64_t stride) {
    return strided_group(t, dp, stride);
}

Group strided_group(const Topology& t, std::int64_t size, std::int64_t stride) {
    return {size, std::clamp<std::int64_t>(t.gpus_per_node / stride, 1, size)};
}

double cross_rail_slowdown(const Topology& t, const Group& group) {
    if (t.inter.cross_rail_cost == 0 || group.per_node <= 1 || group.per_node >= t.gpus_per_node)
        return 1;
    const std::int64_t nodes = group.nodes();
    if (nodes <= 2) return 1;
    return 1 + t.inter.cross_rail_cost * (log2_of(std::max(t.nodes, nodes)) - 1);
}

double slowest_node(std::int64_t nodes, double spread) {
    return nodes <= 1 || spread == 0 ? 1 : 1 + spread * std::sqrt(2 * std::log(real(nodes)));
}

double all_reduce_s(const Topology& t, const Group& group, double bytes) {
    return 2 * pass_s(t, group, bytes);
}
double reduce_scatter_s(const Topology& t, const Group& group, double bytes) {
    return ring_pass_s(t, group, bytes);
}
double all_gather_s(const Topology& t, const Group& group, double bytes) {
    return ring_pass_s(t, group, bytes);
}

double all_to_all_s(const Topology& t, const Group& group, double bytes) {
    if (group.size <= 1) return 0;
    const double part = bytes / real(group.size);
    const double inside = part * real(group.per_node - 1) / t.intra.bytes_per_s;
    const double alpha = start_up_s(t.intra.alpha_s, group.per_node) / 2;
    if (group.nodes() <= 1) return alpha + inside;
    const double outside = part * real(group.size - group.per_node) / rank_share_of_network(t);
    return alpha + inter_alpha_s(t, group.nodes()) + std::max(inside, outside);
}

double point_to_point_s(const Topology& t, bool crosses_nodes, double bytes) {
    if (!crosses_nodes) return t.intra.alpha_s + bytes / t.intra.bytes_per_s;
    return t.inter.alpha_s + bytes / rank_share_of_network(t);
}

bool boundary_crosses(const Topology& t, std::int64_t stage, std::int64_t stage_gpus) {
    if (stage_gpus >= t.gpus_per_node) return true;
    const std::int64_t first = stage * stage_gpus, last = first + 2 * stage_gpus - 1;
    return first / t.gpus_per_node != last / t.gpus_per_node;
}

}  // namespace arena
