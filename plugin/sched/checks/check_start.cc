// SPDX-License-Identifier: GPL-2.0-or-later
// Starting checks: see check_book.h. What keeps a check from beginning is remembered for who asks;
// a node of Arena's own reservation is reached through it, a drained one is not reached at all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "plugin/sched/checks/check_book.h"
#include "plugin/sched/host/nonce.h"

namespace arena {
namespace {

/// Seconds of one product of a profile that a check repeats, at most.
constexpr double max_product_s = 0.1;

Fence fence_of(const ClusterView& view, NodeIndex index) {
    const auto at = view.node_records.find(index);
    return at == view.node_records.end() ? Fence::none : at->second.fence;
}

/// The node's entry of this GPU type; "": its first.
std::optional<NodeIndex> index_of(const ClusterView& view, const std::string& name,
                                  const std::string& type) {
    const auto& nodes = view.snapshot.nodes;
    const auto at = std::find_if(nodes.begin(), nodes.end(), [&](const NodeState& node) {
        return node.name == name && (type.empty() || node.gpu_type == type);
    });
    if (at == nodes.end()) return std::nullopt;
    return static_cast<NodeIndex>(at - nodes.begin());
}

/// The GPU type of the node that comes after this entry's; "": none does.
std::string next_type(const ClusterView& view, NodeIndex index) {
    const auto& nodes = view.snapshot.nodes;
    const bool more = index + 1 < nodes.size() && nodes[index + 1].same_node;
    return more ? nodes[index + 1].gpu_type : std::string();
}

/// One that takes jobs and has the node: that of profile runs first.
std::string partition_of(const ClusterView& view, NodeIndex index, const std::string& own) {
    const auto has = [&](const std::vector<NodeIndex>& nodes) {
        return std::binary_search(nodes.begin(), nodes.end(), index);
    };
    for (const std::string_view name : split(own, ','))
        if (const auto at = view.partitions.find(name);
            at != view.partitions.end() && has(at->second))
            return at->first;
    for (const auto& [name, nodes] : view.partitions)
        if (has(nodes)) return name;
    return {};
}

/// Of the GPUs' share of the node, as much as is free.
void take_share(CarrierSpec& spec, const ClusterView& view, NodeIndex index) {
    const NodeState& node = view.snapshot.nodes[index];
    const std::int64_t all_gpus = gpus_of_node(view.snapshot.nodes, index);
    const std::int64_t cpus = view.node_cpus[index] * spec.gpus / all_gpus;
    spec.cpus = std::max<std::int64_t>(std::min(cpus, node.free_cpus), 1);
    if (!view.memory_tracked) return;
    const std::int64_t memory = view.node_memory_mb[index] * spec.gpus / all_gpus;
    spec.memory_mb = std::max<std::int64_t>(std::min(memory, node.free_memory_mb), 1);
}

}  // namespace

/// The largest of a profile, for the reference of a node that was never checked.
std::vector<OpShape> CheckBook::profiled_products(const std::string& gpu_type) {
    std::map<Precision, std::pair<double, OpShape>> largest;
    for (const auto& [shape, seconds] : measurements_.table(gpu_type).rows()) {
        if (shape.kind != OpKind::gemm || seconds > max_product_s) continue;
        auto& best = largest[shape.precision];
        if (seconds > best.first) best = {seconds, shape};
    }
    std::vector<OpShape> products;
    for (const auto& [precision, best] : largest)
        if (products.size() < max_check_products) products.push_back(best.second);
    return products;
}

std::string CheckBook::why_not_now(const Entry& entry, const ClusterView& view,
                                   NodeIndex index) const {
    const NodeState& node = view.snapshot.nodes[index];
    if (fence_of(view, index) == Fence::drained)
        return "Arena has drained it: resume it (scontrol update NodeName=" + node.name +
               " State=RESUME) and it is checked before jobs may have it";
    if (!node.up) return "it is down, drained or not responding";
    if (node.free_gpus < 1) return "all of its GPUs are in use";
    if (entry.whole_only && node.free_gpus < node.total_gpus)
        return "the GPU that is suspected is in use";
    if (refusals_.rests(node.name, steady_s_)) return refusals_.why(node.name);
    return {};
}

std::optional<CarrierSpec> CheckBook::spec_for(const ClusterView& view, NodeIndex index,
                                               const Entry& entry) {
    const NodeState& node = view.snapshot.nodes[index];
    const std::string* hardware = hardware_of(config_, node.gpu_type);
    if (hardware == nullptr || node.total_gpus < 1 || node.total_gpus > max_check_devices)
        return std::nullopt;
    CarrierSpec spec;
    spec.partition = partition_of(view, index, config_.profile_partition);
    spec.node = node.name;
    spec.gpus = node.free_gpus;
    spec.request.gpu_type = node.gpu_type;
    spec.check = to_json(CheckRequest{.nonce = new_nonce(),
                                      .gpu_type = node.gpu_type,
                                      .hardware = *hardware,
                                      .devices = node.free_gpus,
                                      .node_devices = gpus_of_node(view.snapshot.nodes, index),
                                      .products = profiled_products(node.gpu_type)});
    spec.user_id = spec.for_user = user_.id;
    spec.group_id = user_.group;
    take_share(spec, view, index);
    // It may wait for a profile run that has this host.
    spec.time_limit_minutes = static_cast<std::uint32_t>(
        std::ceil((config_.slowdown_check_time_limit_s + config_.profile_time_limit_s) / 60));
    if (fence_of(view, index) == Fence::reserved) spec.reservation = "arena_slow_" + node.name;
    spec.comment = fmt::format("arena: check {}: {}", node.name,
                               entry.asked ? "an administrator asked" : "it was found slow");
    return spec;
}

void CheckBook::note_refusal(const std::string& name, Entry& entry, const CarrierStart& start) {
    if (refusals_.note(name, start.why, steady_s_))
        host_.log_error(
            fmt::format("no check of node {} starts: {}; it is tried again less and "
                        "less often",
                        name, start.why));
    entry.waits = start.why;
}

void CheckBook::start_one(const std::string& name, Entry& entry, ClusterView& view) {
    const auto index = index_of(view, name, entry.type);
    const auto spec = index ? spec_for(view, *index, entry) : std::nullopt;
    if (!spec) {
        host_.log_error(fmt::format(
            "node {} cannot be checked: {}", name,
            index ? "arena.yaml maps its GPUs to no hardware entry" : "there is no such node"));
        return give_up(entry);
    }
    entry.waits = why_not_now(entry, view, *index);
    if (!entry.waits.empty()) return;
    const CarrierStart start = host_.start_carrier(*spec);
    if (start.id == 0) return note_refusal(name, entry, start);
    refusals_.forget(name);
    runs_[start.id].ours = true;
    entry.carrier = start.id;
    ++counts_.started;
    entry.next_type = next_type(view, *index);
    entry.whole_type = spec->gpus >= view.snapshot.nodes[*index].total_gpus;
    give_to_node(view.snapshot.nodes, *index, -spec->gpus, -spec->cpus, -spec->memory_mb);
}

void CheckBook::start(ClusterView& view) {
    if (!can_check()) return;
    std::size_t slots = max_running - std::min(max_running, running());
    for (auto& [name, entry] : entries_) {
        if (!entry.wanted() || entry.carrier != 0 || steady_s_ < entry.next_try_s) continue;
        if (slots == 0) {
            entry.waits = fmt::format("{} other nodes are checked first", max_running);
            continue;
        }
        if (host_.stopping()) return;
        start_one(name, entry, view);
        slots -= entry.carrier != 0 ? 1 : 0;
    }
}

}  // namespace arena
