// SPDX-License-Identifier: GPL-2.0-or-later
// See ordinary.h.
#include "plugin/sched/host/ordinary.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>

#include "base/text.h"

namespace arena {
namespace {

struct Gpus {
    std::string type;
    std::int64_t count = 0;
};

/// Of "cpu:2,gres/gpu:a100:4": each release writes it with other signs in between. Nothing where
/// it has no GPUs, or several types of them.
std::optional<Gpus> gpus_in(std::string_view tres) {
    std::optional<Gpus> found;
    std::string alike(tres);
    for (char& c : alike)
        if (c == '/' || c == '=') c = ':';
    for (const std::string_view item : split(alike, ',')) {
        std::vector<std::string_view> words = split(item, ':');
        if (!words.empty() && words.front() == "gres") words.erase(words.begin());
        if (words.empty() || words.front() != "gpu") continue;
        if (found || words.size() > 3) return std::nullopt;
        found.emplace();
        const std::optional<std::int64_t> count = parse_integer(words.back(), 1, INT64_MAX);
        found->count = words.size() == 1 ? 1 : count.value_or(1);
        if (words.size() == 3 || (words.size() == 2 && !count)) found->type = words[1];
    }
    return found;
}

std::int64_t rounded_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// A node of each type that it may have, with the most GPUs.
std::map<std::string, const NodeState*> nodes_of_types(const OrdinaryJob& job,
                                                       const Snapshot& snapshot,
                                                       const std::string& type) {
    std::map<std::string, const NodeState*> most;
    if (job.node_set >= snapshot.node_sets.size()) return most;
    for (const NodeIndex n : snapshot.node_sets[job.node_set]) {
        const NodeState& node = snapshot.nodes[n];
        if (node.total_gpus < 1 || (!type.empty() && node.gpu_type != type)) continue;
        const NodeState*& known = most[node.gpu_type];
        if (known == nullptr || known->total_gpus < node.total_gpus) known = &node;
    }
    return most;
}

/// On nodes with so many GPUs; without any, they cannot be had.
Grid layout_of(const AskedGpus& asked, const OrdinaryJob& job, const NodeState& node) {
    Grid grid{node.gpu_type, job.nodes, asked.per_node, 1};
    if (asked.per_node == 0) {
        grid.nodes = std::max(job.nodes, rounded_up(asked.in_all, node.total_gpus));
        while (grid.nodes < asked.in_all && asked.in_all % grid.nodes != 0) ++grid.nodes;
        grid.gpus_per_node = asked.in_all % grid.nodes == 0 ? asked.in_all / grid.nodes : 0;
    }
    if (grid.gpus_per_node > node.total_gpus) grid.gpus_per_node = 0;
    if (job.whole_nodes && grid.gpus_per_node > 0) grid.gpus_per_node = node.total_gpus;
    return grid;
}

}  // namespace

std::optional<AskedGpus> asked_gpus(const OrdinaryJob& job) {
    if (const auto gpus = gpus_in(job.per_node)) return AskedGpus{gpus->type, gpus->count, 0};
    if (const auto gpus = gpus_in(job.per_job)) return AskedGpus{gpus->type, 0, gpus->count};
    if (const auto gpus = gpus_in(job.per_task))
        return AskedGpus{gpus->type, 0, gpus->count * job.tasks};
    return std::nullopt;
}

std::optional<std::pair<JobState, std::vector<Offer>>> state_of(const OrdinaryJob& job,
                                                                const Snapshot& snapshot) {
    constexpr double year_s = 365.0 * 86400;
    const std::optional<AskedGpus> asked = asked_gpus(job);
    if (!asked || !job.is_known) return std::nullopt;
    std::vector<Offer> offers;
    for (const auto& [type, node] : nodes_of_types(job, snapshot, asked->type)) {
        Offer offer;
        offer.grid = layout_of(*asked, job, *node);
        offer.estimate.iteration_s = 1;
        if (offer.grid.gpus_per_node > 0) offers.push_back(std::move(offer));
    }
    if (offers.empty()) return std::nullopt;
    const Grid& grid = offers.front().grid;
    JobState state;
    state.id = job.id;
    state.ordinary = true;
    state.priority = job.rank;
    state.submit_s = job.submit_s;
    state.age_s = std::max(snapshot.time_s - job.eligible_s, 0.0);
    state.max_gpus = INT64_MAX;
    // Rounded down: what asks for all of a node is to find room there.
    state.cpus_per_gpu = job.cpus / grid.gpus();
    const std::int64_t cpus_per_node = rounded_up(job.cpus, grid.nodes);
    state.memory_mb_per_gpu =
        job.memory_mb * (job.memory_is_per_cpu ? cpus_per_node : 1) / grid.gpus_per_node;
    state.node_set = job.node_set;
    state.time_limit_s = job.time_limit_s > 0 ? job.time_limit_s : year_s;
    state.remaining_iterations = state.time_limit_s;
    return std::pair(std::move(state), std::move(offers));
}

}  // namespace arena
