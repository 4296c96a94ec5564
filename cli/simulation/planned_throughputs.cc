// SPDX-License-Identifier: GPL-2.0-or-later
// The planner as a table of iteration times: see planned_throughputs.h.
#include "cli/simulation/planned_throughputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "cli/planning/plan_input.h"
#include "planner/hardware/hardware.h"
#include "planner/models/readers.h"
#include "planner/plans/pool_network.h"
#include "planner/search/planner.h"
#include "sim/workload.h"

namespace arena::cli {
namespace {

/// Share of a link's rate that collectives reach, as for hardware entries that do not say.
constexpr double link_efficiency = 0.75;

/// Zheng et al. (Alpa), OSDI 2022, table 4; sequences of 1024, a vocabulary of 51200. Arena calls
/// them bert.
struct GptSize {
    std::string_view size;
    int layers, hidden, heads;
};
constexpr GptSize gpt_sizes[] = {
    {"350M", 24, 1024, 16}, {"760M", 24, 1536, 16}, {"1.3B", 24, 2048, 32}, {"2.6B", 32, 2560, 32},
    {"6.7B", 32, 4096, 32}, {"15B", 48, 5120, 40},  {"39B", 48, 8192, 64}};

/// "moe__2.4B" -> "moe-2.4b".
std::string zoo_name(std::string_view name) {
    std::string out;
    for (const char c : name) {
        if (c == '_' && out.ends_with('-')) continue;
        out += c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    return out;
}

Result<std::vector<GpuPool>> pools_of(const Globals& globals, const sim::Cluster& cluster,
                                      const PlannerOptions& given) {
    const auto types = known_types(globals, cluster.gpu_types(), given);
    if (!types) return types.error();
    PlanOptions options;
    options.gpu_types = *types;
    options.hardware = given.hardware;
    options.launcher = given.launcher;
    Result<std::vector<GpuPool>> pools = read_pools(globals, options);
    if (!pools && pools.error().code != ErrorCode::usage) return pools;
    if (!pools)
        return usage_error(pools.error().text +
                               "; map a site's types in gpu_types of arena.yaml, or add entries "
                               "with --hardware",
                           pools.error().where);
    const Snapshot laid = sim::lay_out(cluster);
    for (GpuPool& pool : *pools) {
        pool.gpus_per_node = pool.max_gpus = 0;
        PoolNetwork network;
        for (const NodeState& node : laid.nodes)
            if (node.gpu_type == pool.gpu_type) network.count(laid, node);
        network.tell(laid.topology, pool);
        for (const sim::NodeGroup& group : cluster.groups) {
            if (group.gpu_type != pool.gpu_type) continue;
            pool.gpus_per_node = std::max(pool.gpus_per_node, group.gpus_per_node);
            pool.max_gpus += group.count * group.gpus_per_node;
        }
        pool.max_gpus = std::min(pool.max_gpus, given.max_gpus);
        set_oversubscription(pool.hardware, cluster.leaf_oversubscription,
                             cluster.pod_oversubscription);
        if (cluster.inter_gbps_per_node > 0) {
            pool.hardware.inter.bytes_per_s =
                cluster.inter_gbps_per_node / 8 * 1e9 * link_efficiency;
        }
    }
    return pools;
}

/// Of the time that its parts add up to; they may overlap.
double communication_share(const Estimate& e) {
    const double communication_s = e.tp_comm_s + e.pp_comm_s + e.dp_comm_s;
    const double all_s = communication_s + e.compute_s + e.bubble_s + e.optimizer_s;
    return all_s > 0 ? communication_s / all_s : -1;
}

}  // namespace

Result<std::vector<std::string>> known_types(const Globals& globals,
                                             const std::vector<std::string>& types,
                                             const PlannerOptions& given) {
    if (!given.leaves_out) return types;
    std::vector<std::string> known;
    for (const std::string& type : types) {
        PlanOptions options;
        options.gpu_types = {type};
        options.hardware = given.hardware;
        options.launcher = given.launcher;
        const auto pool = read_pools(globals, options);
        if (pool) known.push_back(type);
        if (!pool && pool.error().code != ErrorCode::usage) return pool.error();
    }
    return known.empty() ? types : known;  // then the refusal says what is missing
}

Result<Model> trace_model(const std::string& name) {
    for (const GptSize& gpt : gpt_sizes) {
        if (name != fmt::format("bert__{}", gpt.size)) continue;
        return parse_model(
            fmt::format("family: gpt\nlayers: {}\nhidden: {}\nheads: {}\nvocab: 51200\n"
                        "seq_length: 1024\nprecision: fp16\n",
                        gpt.layers, gpt.hidden, gpt.heads),
            name);
    }
    Result<Model> model = find_zoo_model(name);
    return model ? model : find_zoo_model(zoo_name(name));
}

std::vector<PlannedModel> models_of(const std::vector<sim::TraceJob>& trace,
                                    const std::string& trace_name) {
    std::vector<PlannedModel> models;
    std::set<std::pair<std::string, std::int64_t>> seen;
    for (const sim::TraceJob& job : trace) {
        if (job.model.empty() || !seen.emplace(job.model, job.batch).second) continue;
        models.push_back({job.model, job.batch, fmt::format("{}:{}", trace_name, job.line)});
    }
    return models;
}

Result<sim::Throughputs> plan_throughputs(const Globals& globals, const sim::Cluster& cluster,
                                          const std::vector<PlannedModel>& models,
                                          const PlannerOptions& given) {
    PlanOptions launcher;
    launcher.launcher = given.launcher;
    const auto can = read_launcher(launcher);
    if (!can) return can.error();
    const auto pools = pools_of(globals, cluster, given);
    if (!pools) return pools.error();
    sim::Throughputs table;
    for (const PlannedModel& wanted : models) {
        const Result<Model> model = trace_model(wanted.model);
        if (!model) return usage_error("model_name: " + model.error().text, wanted.where);
        PlanQuery query{.model = *model,
                        .global_batch = wanted.batch,
                        .max_gpus = 0,
                        .pools = *pools,
                        .can = *can};
        auto& rows = table.rows[{wanted.model, wanted.batch}];
        for (const Offer& offer : make_offers(query)) {
            rows.push_back({offer.grid.gpu_type, offer.grid.nodes, offer.grid.gpus_per_node,
                            offer.estimate.iteration_s, offer.plan, offer.estimate.source,
                            communication_share(offer.estimate), offer.slower, offer.segment});
        }
    }
    return table;
}

}  // namespace arena::cli
