// SPDX-License-Identifier: GPL-2.0-or-later
// Files of a simulation: see simulate_input.h.
#include "cli/simulation/simulate_input.h"

#include <algorithm>

#include "cli/common/cli.h"

namespace arena::cli {
namespace {

constexpr std::size_t max_cluster_bytes = 64 * 1024;
constexpr std::size_t max_table_bytes = std::size_t{64} << 20;
constexpr std::size_t max_trace_bytes = std::size_t{1} << 30;

/// Of jobs on GPUs that the planner does not know. How many, by type.
Result<std::map<std::string, std::int64_t>> forget_models(const Globals& globals,
                                                          const sim::Cluster& cluster,
                                                          const PlannerOptions& planner,
                                                          std::vector<sim::TraceJob>& trace) {
    std::map<std::string, std::int64_t> left;
    const auto named = [](const sim::TraceJob& job) { return !job.model.empty(); };
    if (std::none_of(trace.begin(), trace.end(), named)) return left;
    const auto known = known_types(globals, cluster.gpu_types(), planner);
    if (!known) return known.error();
    for (sim::TraceJob& job : trace) {
        const bool plans = std::find(known->begin(), known->end(), job.gpu_type) != known->end();
        if (job.model.empty() || plans) continue;
        ++left[job.gpu_type];
        job.model.clear();
        job.batch = 0;
    }
    return left;
}

}  // namespace

Result<sim::Cluster> read_cluster(const std::string& path) {
    const Result<std::string> text = read_user_file(path, max_cluster_bytes);
    if (!text) return text.error();
    return sim::parse_cluster(*text, path);
}

Result<sim::Throughputs> read_throughputs(const std::string& path) {
    const Result<std::string> text = read_user_file(path, max_table_bytes);
    if (!text) return text.error();
    return sim::parse_throughputs(*text, path);
}

Result<sim::InferenceCurve> read_inference(const std::string& path) {
    const Result<std::string> text = read_user_file(path, max_table_bytes);
    if (!text) return text.error();
    return sim::parse_inference_curve(*text, path);
}

Result<sim::Workload> read_workload(const Globals& globals, const WorkloadFiles& files,
                                    sim::WorkloadOptions options,
                                    std::map<std::string, std::int64_t>* as_requested) {
    if (files.planner.on == !files.throughputs.empty()) {
        return usage_error(
            "one of the two is needed: a table of iteration times, or the planner's estimates",
            "--throughputs, --planner");
    }
    const Result<sim::Cluster> cluster = read_cluster(files.cluster);
    if (!cluster) return cluster.error();
    const Result<std::string> text = read_user_file(files.trace, max_trace_bytes);
    if (!text) return text.error();
    Result<std::vector<sim::TraceJob>> trace = sim::parse_trace(*text, files.trace);
    if (!trace) return trace.error();
    if (files.planner.on && files.planner.leaves_out) {
        const auto left = forget_models(globals, *cluster, files.planner, *trace);
        if (!left) return left.error();
        if (as_requested != nullptr) *as_requested = *left;
    }
    const std::vector<PlannedModel> models = models_of(*trace, files.trace);
    // Jobs without a model run as they ran, on GPUs that the planner need not know.
    const Result<sim::Throughputs> table =
        !files.planner.on ? read_throughputs(files.throughputs)
        : models.empty()  ? sim::Throughputs{}
                          : plan_throughputs(globals, *cluster, models, files.planner);
    if (!table) return table.error();
    options.trace_name = files.trace;
    return sim::bind_workload(*cluster, *trace, *table, options);
}

}  // namespace arena::cli
