// SPDX-License-Identifier: GPL-2.0-or-later
// See shares.h.
#include "plugin/sched/round/shares.h"

#include <algorithm>

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

bool can_hold(const std::vector<TypePool>& pools, const Offer& offer) {
    return std::any_of(pools.begin(), pools.end(), [&](const TypePool& pool) {
        return pool.type() == offer.grid.gpu_type && pool.can_place(offer.grid.gpus());
    });
}

void write_memory(Shape& shape, const Request& request, const JobState& share) {
    shape.memory_mb_per_cpu = request.mem_per_cpu_mb;
    if (request.whole_memory) return;  // Slurm's record says so, from the submission on
    shape.memory_mb_per_node = request.mem_per_node_mb > 0
                                   ? request.mem_per_node_mb
                                   : share.memory_mb_per_gpu * shape.offer.grid.gpus_per_node;
}

}  // namespace arena
