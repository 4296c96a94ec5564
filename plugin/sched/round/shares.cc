// SPDX-License-Identifier: GPL-2.0-or-later
// See shares.h.
#include "plugin/sched/round/shares.h"

#include <algorithm>

#include "plugin/sched/round/launch.h"

namespace arena {

bool allows(const std::vector<std::string>& gpu_types, const std::string& type) {
    return gpu_types.empty() ||
           std::find(gpu_types.begin(), gpu_types.end(), type) != gpu_types.end();
}

namespace {

/// CPUs and memory of one GPU: what every GPU type that the job may get can give to each of its
/// GPUs. A type with more to give must not make a poorer one impossible.
void take_even_share(JobState& state, const std::vector<SitePool>& pools) {
    std::int64_t cpus = INT64_MAX, memory_mb = INT64_MAX;
    for (const SitePool& pool : pools) {
        if (!allows(state.gpu_types, pool.gpu_type)) continue;
        cpus = std::min(cpus, pool.cpus_per_gpu);
        memory_mb = std::min(memory_mb, pool.memory_mb_per_gpu);
    }
    state.cpus_per_gpu = cpus == INT64_MAX ? 1 : std::max<std::int64_t>(cpus, 1);
    state.memory_mb_per_gpu = memory_mb == INT64_MAX ? 0 : memory_mb;
}

/// Most GPUs that a node of a type which the job may get has.
std::int64_t most_per_node(const JobState& state, const std::vector<SitePool>& pools) {
    std::int64_t most = 1;
    for (const SitePool& pool : pools)
        if (allows(state.gpu_types, pool.gpu_type)) most = std::max(most, pool.gpus_per_node);
    return most;
}

/// state.memory_mb_per_gpu is the even share. With --mem-per-cpu, CPUs that were not asked for are
/// as many as that share pays for.
void take_memory(JobState& state, const Config& config, const Request& request,
                 const std::vector<SitePool>& pools) {
    const std::int64_t even = state.memory_mb_per_gpu;
    if (config.mem_per_gpu_mb > 0) state.memory_mb_per_gpu = config.mem_per_gpu_mb;
    if (request.mem_per_gpu_mb > 0) state.memory_mb_per_gpu = request.mem_per_gpu_mb;
    // A policy counts by GPU: of memory by node, what each of a full node's GPUs takes at least.
    // Where a node has less to spare than that makes of it, Slurm says that it is busy.
    if (request.mem_per_node_mb > 0)
        state.memory_mb_per_gpu = request.mem_per_node_mb / most_per_node(state, pools);
    if (request.mem_per_cpu_mb == 0) return;
    if (request.cpus_per_gpu == 0 && even > 0)
        state.cpus_per_gpu =
            std::clamp<std::int64_t>(even / request.mem_per_cpu_mb, 1, state.cpus_per_gpu);
    state.memory_mb_per_gpu = request.mem_per_cpu_mb * state.cpus_per_gpu;
}

Grid plain_grid(const Request& request, const std::vector<SitePool>& pools) {
    const std::int64_t gpus = std::max<std::int64_t>(request.min_gpus, 1);
    const SitePool* chosen = nullptr;
    for (const SitePool& pool : pools)
        if (!chosen && allows(request.gpu_types, pool.gpu_type) && pool.max_gpus >= gpus)
            chosen = &pool;
    Grid grid;
    grid.gpus_per_node = gpus;
    if (!request.gpu_types.empty())
        grid.gpu_type = chosen ? chosen->gpu_type : request.gpu_types.front();
    if (!chosen || chosen->gpus_per_node <= 0) return grid;
    grid.gpus_per_node = std::min(gpus, chosen->gpus_per_node);
    while (gpus % grid.gpus_per_node != 0) --grid.gpus_per_node;
    grid.nodes = gpus / grid.gpus_per_node;
    return grid;
}

NodeFacts facts_of(const ClusterView& view, NodeIndex index) {
    const NodeState& node = view.snapshot.nodes[index];
    return {{{node.gpu_type, node.total_gpus}}, view.node_cpus[index], view.node_memory_mb[index]};
}

}  // namespace

void take_share(JobState& state, const Config& config, const Request& request,
                const std::vector<SitePool>& pools) {
    state.gpu_types = request.gpu_types;
    take_even_share(state, pools);
    if (config.cpus_per_gpu > 0) state.cpus_per_gpu = config.cpus_per_gpu;
    if (request.cpus_per_gpu > 0) state.cpus_per_gpu = request.cpus_per_gpu;
    take_memory(state, config, request, pools);
}

NodeNeeds needs_of(const JobState& share, const Request& request) {
    NodeNeeds needs;
    needs.cpus_per_gpu = share.cpus_per_gpu;
    needs.memory_per_node_mb = request.mem_per_node_mb;
    if (request.mem_per_node_mb == 0) needs.memory_per_gpu_mb = share.memory_mb_per_gpu;
    return needs;
}

bool can_hold_any(const std::vector<TypePool>& pools, const std::vector<Offer>& offers) {
    const auto holds = [&](const Offer& offer) {
        return std::any_of(pools.begin(), pools.end(), [&](const TypePool& pool) {
            if (pool.type() != offer.grid.gpu_type) return false;
            const std::int64_t gpus = offer.grid.gpus();
            return offer.grid.is_uneven() ? pool.fewest_in_pieces(gpus, pool.per_node()) > 0
                                          : pool.can_place(gpus);
        });
    };
    return std::any_of(offers.begin(), offers.end(), holds);
}

bool fits_node_limits(const JobView& job, const std::vector<Offer>& offers) {
    const auto allowed = [&](const Offer& offer) {
        return std::any_of(job.slots.begin(), job.slots.end(), [&](const PartitionSlot& at) {
            return offer.grid.nodes >= at.place.min_nodes && offer.grid.nodes <= at.place.max_nodes;
        });
    };
    return job.slots.empty() || std::any_of(offers.begin(), offers.end(), allowed);
}

void write_memory(Shape& shape, const Request& request, const JobState& share) {
    shape.memory_mb_per_cpu = request.mem_per_cpu_mb;
    if (request.whole_memory) return;  // Slurm's record says so, from the submission on
    if (shape.offer.grid.is_uneven() && request.mem_per_node_mb == 0) {
        shape.memory_mb_per_gpu = request.mem_per_cpu_mb > 0 ? 0 : share.memory_mb_per_gpu;
        return;
    }
    shape.memory_mb_per_node = request.mem_per_node_mb > 0
                                   ? request.mem_per_node_mb
                                   : share.memory_mb_per_gpu * shape.offer.grid.gpus_per_node;
}

Shape plain_shape(const JobView& job, const Request& request, const Config& config,
                  const std::vector<SitePool>& pools) {
    JobState share;
    take_share(share, config, request, pools);
    Shape shape;
    shape.job = job.id;
    shape.restart = job.facts.restart;
    shape.basis = job.basis;
    shape.offer.grid = plain_grid(request, pools);
    shape.cpus_per_task =
        std::max<std::int64_t>(share.cpus_per_gpu * shape.offer.grid.gpus_per_node, 1);
    write_memory(shape, request, share);
    shape.environment = {given_entry({}, request)};
    shape.admin_comment = "arena:v1 state=off";
    return shape;
}

const std::vector<TypePool>& NodePools::of(std::uint32_t node_set, bool up_only,
                                           const NodeNeeds& needs) {
    const Key key{node_set, up_only, needs.cpus_per_gpu, needs.memory_per_gpu_mb,
                  needs.memory_per_node_mb};
    const auto [at, added] = pools_.try_emplace(key);
    if (!added) return at->second;
    std::vector<NodeFacts> facts;
    for (NodeIndex index : view_.snapshot.node_sets[node_set]) {
        const NodeState& node = view_.snapshot.nodes[index];
        if (node.total_gpus > 0 && (node.up || !up_only)) facts.push_back(facts_of(view_, index));
    }
    return at->second = make_pools(facts, needs);
}

std::string why_no_node(const JobView& job, const Request& request, const ClusterView& view,
                        const SiteFacts& site) {
    ClusterFacts facts;
    facts.place = "partition " + job.partition;
    for (NodeIndex index : view.snapshot.node_sets[job.node_set]) {
        facts.partition.push_back(facts_of(view, index));
        facts.types.push_back(view.snapshot.nodes[index].gpu_type);
    }
    const Status fits = check_cluster(request, 0, facts, site);
    return fits ? "no node that it may use has the CPUs and memory of any of its shapes"
                : fits.error().message();
}

}  // namespace arena
