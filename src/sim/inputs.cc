// SPDX-License-Identifier: GPL-2.0-or-later
// Readers of the simulator's files: see inputs.h.
#include "sim/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_set>

#include "base/csv.h"
#include "base/text.h"
#include "base/yaml.h"
#include "core/limits.h"

namespace arena::sim {
namespace {

constexpr double longest_iteration_s = 300;  // as the published simulator
constexpr double latest_s = 1e12;
constexpr double longest_power_s = 1e7;
/// Rows may be late by this share of the trace's span.
constexpr double tolerated_disorder = 0.01;

/// Moves a typed value out or keeps the first error.
template <typename T>
void keep(const Result<T>& result, T& out, std::optional<Error>& error) {
    if (result) {
        out = *result;
    } else if (!error) {
        error = result.error();
    }
}

void read_power(const YamlNode& item, std::string_view file, std::optional<Error>& error,
                NodeGroup& out) {
    for (const auto& [key, value] :
         {std::pair("boot_s", &out.power.boot_s), std::pair("suspend_s", &out.power.suspend_s)})
        if (const YamlNode* said = item.find(key))
            keep(yaml_number(*said, file, key, 1, longest_power_s), *value, error);
    if (error || (item.find("boot_s") == nullptr && item.find("suspend_s") == nullptr)) return;
    if (out.power.boot_s == 0 || out.power.suspend_s == 0)
        error = usage_error(
            "boot_s and suspend_s: give both, the seconds that a node boots and those that it is "
            "idle before it falls asleep",
            item.where(file));
    else if (out.inference)
        error = usage_error("suspend_s: nodes of inference do not sleep", item.where(file));
}

void read_network(const YamlNode& item, std::string_view file, std::optional<Error>& error,
                  NodeGroup& out) {
    for (const auto& [key, value] :
         {std::pair("leaf_nodes", &out.leaf_nodes), std::pair("pod_leaves", &out.pod_leaves),
          std::pair("domain_nodes", &out.domain_nodes)})
        if (const YamlNode* said = item.find(key))
            keep(yaml_integer(*said, file, key, 1, limits::gpus), *value, error);
    if (error) return;
    if (out.domain_nodes > 0 && (out.leaf_nodes > 0 || out.pod_leaves > 0))
        error = usage_error(
            "domain_nodes: leave leaf_nodes and pod_leaves out; each rack is a leaf, as a block "
            "of topology/block is",
            item.where(file));
    else if (out.pod_leaves > 0 && out.leaf_nodes == 0)
        error = usage_error("pod_leaves: needs leaf_nodes, the nodes below a leaf switch",
                            item.where(file));
}

/// A cluster has one kind of network.
Status check_networks(const std::vector<NodeGroup>& groups, const std::string& where) {
    const auto kind = [](const NodeGroup& group) {
        return std::pair(group.leaf_nodes > 0, group.domain_nodes > 0);
    };
    for (const NodeGroup& group : groups)
        if (kind(group) != kind(groups.front()))
            return usage_error(
                "leaf_nodes, domain_nodes: one of the two in each entry of nodes, or neither in "
                "any",
                where);
    return Done{};
}

void read_group(const YamlNode& item, std::string_view file, std::optional<Error>& error,
                NodeGroup& out) {
    if (const Status s =
            yaml_check_keys(item, file,
                            {"gpu_type", "count", "gpus_per_node", "name", "inference",
                             "leaf_nodes", "pod_leaves", "domain_nodes", "boot_s", "suspend_s"});
        !s) {
        error = s.error();
        return;
    }
    for (const char* key : {"gpu_type", "count", "gpus_per_node"}) {
        if (item.find(key) != nullptr) continue;
        error = usage_error(fmt::format("{} is missing", key), item.where(file));
        return;
    }
    keep(yaml_string(*item.find("gpu_type"), file, "gpu_type", limits::name_bytes), out.gpu_type,
         error);
    keep(yaml_integer(*item.find("count"), file, "count", 1, limits::gpus), out.count, error);
    keep(yaml_integer(*item.find("gpus_per_node"), file, "gpus_per_node", 1, limits::gpus_per_node),
         out.gpus_per_node, error);
    out.prefix = "n";
    if (const YamlNode* name = item.find("name")) {
        keep(yaml_string(*name, file, "name", limits::name_bytes), out.prefix, error);
    }
    if (const YamlNode* inference = item.find("inference"))
        keep(yaml_bool(*inference, file, "inference"), out.inference, error);
    read_network(item, file, error, out);
    read_power(item, file, error, out);
    if (!error && out.gpu_type.empty()) {
        error = usage_error("gpu_type: must not be empty", item.where(file));
    }
}

void read_shares(const YamlNode& map, std::string_view file, std::optional<Error>& error,
                 Cluster& out) {
    if (map.kind != YamlNode::Kind::map) {
        error = usage_error("accounts: a map of account to share is needed", map.where(file));
        return;
    }
    for (const auto& [account, share] : map.members) {
        double value = 0;
        keep(yaml_number(share, file, account, 1e-6, 1e6), value, error);
        out.shares[account] = value;
    }
}

void read_oversubscription(const YamlNode& map, std::string_view file, std::optional<Error>& error,
                           Cluster& out) {
    if (map.kind != YamlNode::Kind::map) {
        error = usage_error("oversubscription: a map of leaf and pod is needed", map.where(file));
        return;
    }
    if (const Status s = yaml_check_keys(map, file, {"leaf", "pod"}); !s) {
        error = s.error();
        return;
    }
    for (const auto& [key, value] : {std::pair("leaf", &out.leaf_oversubscription),
                                     std::pair("pod", &out.pod_oversubscription)})
        if (const YamlNode* said = map.find(key))
            keep(yaml_number(*said, file, key, 1, 1000), *value, error);
    const NodeGroup& first = out.groups.front();
    if (!error && first.leaf_nodes == 0 && first.domain_nodes == 0)
        error = usage_error(
            "oversubscription: needs leaf_nodes or domain_nodes in each entry of "
            "nodes",
            map.where(file));
}

Status put_in_order(std::vector<TraceJob>& jobs, const std::string& name) {
    const auto earlier = [](const TraceJob& a, const TraceJob& b) {
        return a.submit_s < b.submit_s;
    };
    const auto [first, last] = std::minmax_element(jobs.begin(), jobs.end(), earlier);
    const double tolerance_s = tolerated_disorder * (last->submit_s - first->submit_s);
    double latest = first->submit_s;
    for (const TraceJob& job : jobs) {
        if (job.submit_s < latest - tolerance_s) {
            return usage_error(
                fmt::format("submission_time {:.0f} comes after {:.0f}: sort the trace "
                            "by submission_time",
                            job.submit_s, latest),
                fmt::format("{}:{}", name, job.line));
        }
        latest = std::max(latest, job.submit_s);
    }
    std::stable_sort(jobs.begin(), jobs.end(), earlier);
    return Done{};
}

bool is_given(const Csv& csv, std::string_view column) {
    return csv.has(column) && !csv.cell(column).empty();
}

/// What the job does: iterations of a model, or a run that was recorded.
void read_work(Csv& csv, TraceJob& job) {
    if (is_given(csv, "run_time")) job.run_s = csv.number("run_time", 1e-3, latest_s);
    if (is_given(csv, "start_time")) job.start_s = csv.number("start_time", 0, latest_s);
    if (is_given(csv, "num_node")) job.nodes = csv.integer("num_node", 1, limits::gpus);
    const bool recorded = job.run_s > 0;
    if (!recorded || is_given(csv, "num_iteration"))
        job.num_iteration = csv.integer("num_iteration", 1, std::int64_t{1} << 50);
    if (recorded && !is_given(csv, "model_name")) return;
    job.model = csv.word("model_name");
    job.batch = csv.integer("batch_size", 1, limits::batch);
}

/// alpa_optimal.csv and its like: whether the row holds a time, and which.
double time_of_row(Csv& csv) {
    for (const char* flag : {"measured_ok", "usable_in_simulator"}) {
        if (csv.has(flag) && csv.integer(flag, 0, 1) == 0) return 0;
    }
    return csv.number("iter_time_s", 1e-9, 1e9);
}

/// simulator_throughput_view.csv: the same from samples per second.
double time_of_view_row(Csv& csv, std::int64_t batch) {
    if (csv.integer("feasible", 0, 1) == 0) return 0;
    if (csv.has("derivation") && csv.cell("derivation") != "direct") return 0;
    return static_cast<double>(batch) / csv.number("throughput_samples_per_s", 1e-9, 1e12);
}

}  // namespace

std::vector<std::string> Cluster::gpu_types() const {
    std::vector<std::string> types;
    for (const NodeGroup& group : groups) {
        if (std::find(types.begin(), types.end(), group.gpu_type) == types.end()) {
            types.push_back(group.gpu_type);
        }
    }
    return types;
}

std::int64_t Cluster::gpus() const {
    std::int64_t sum = 0;
    for (const NodeGroup& group : groups) sum += group.count * group.gpus_per_node;
    return sum;
}

Result<Cluster> parse_cluster(std::string_view text, std::string_view name) {
    const Result<YamlNode> yaml = parse_yaml(text, name);
    if (!yaml) return yaml.error();
    if (const Status s = yaml_check_keys(
            *yaml, name, {"nodes", "inter_gbps_per_node", "oversubscription", "accounts"});
        !s) {
        return s.error();
    }
    const YamlNode* nodes = yaml->find("nodes");
    if (nodes == nullptr || nodes->kind != YamlNode::Kind::sequence || nodes->items.empty()) {
        return usage_error("nodes: a list of {gpu_type, count, gpus_per_node} is needed",
                           (nodes == nullptr ? *yaml : *nodes).where(name));
    }
    Cluster cluster;
    std::optional<Error> error;
    std::int64_t count = 0;
    for (const YamlNode& item : nodes->items) {
        read_group(item, name, error, cluster.groups.emplace_back());
        if (error) return *error;
        count += cluster.groups.back().count;
    }
    if (const Status s = check_networks(cluster.groups, nodes->where(name)); !s) return s.error();
    if (count > limits::gpus) {
        return usage_error(
            fmt::format("{} nodes, but at most {} are accepted", count, limits::gpus),
            nodes->where(name));
    }
    if (const YamlNode* gbps = yaml->find("inter_gbps_per_node")) {
        keep(yaml_number(*gbps, name, "inter_gbps_per_node", 0, 1e6), cluster.inter_gbps_per_node,
             error);
    }
    if (const YamlNode* levels = yaml->find("oversubscription"))
        read_oversubscription(*levels, name, error, cluster);
    if (const YamlNode* accounts = yaml->find("accounts")) {
        read_shares(*accounts, name, error, cluster);
    }
    if (error) return *error;
    return cluster;
}

Result<std::vector<TraceJob>> parse_trace(std::string_view text, const std::string& name) {
    Result<Csv> opened = Csv::open(text, name,
                                   {"job_id", "submission_time", "num_iteration", "model_name",
                                    "batch_size", "num_gpu", "gpu_type"});
    if (!opened) return opened.error();
    Csv& csv = *opened;
    std::vector<TraceJob> jobs;
    std::unordered_set<std::string> ids;
    while (csv.next()) {
        TraceJob job;
        job.id = csv.word("job_id");
        job.submit_s = csv.number("submission_time", 0, latest_s);
        read_work(csv, job);
        job.gpus = csv.integer("num_gpu", 1, limits::gpus);
        job.gpu_type = csv.word("gpu_type", limits::name_bytes);
        if (csv.has("account") && !csv.cell("account").empty())
            job.account = csv.word("account", limits::name_bytes);
        if (csv.has("priority")) job.priority = csv.number("priority", -1e12, 1e12);
        if (csv.has("time_limit")) job.time_limit_s = csv.number("time_limit", 0, latest_s);
        job.line = csv.line();
        if (!ids.insert(job.id).second) {
            csv.refuse(fmt::format("job_id {} is given twice", printable(job.id)));
        }
        jobs.push_back(std::move(job));
    }
    if (csv.error()) return *csv.error();
    if (jobs.empty()) return usage_error("the trace has no jobs", name + ":1");
    if (const Status status = put_in_order(jobs, name); !status) return status.error();
    return jobs;
}

std::string format_trace(const std::vector<TraceJob>& jobs) {
    const bool recorded =
        std::any_of(jobs.begin(), jobs.end(), [](const TraceJob& job) { return job.run_s > 0; });
    std::string out =
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,gpu_type,"
        "account,priority,time_limit";
    out += recorded ? ",run_time,start_time,num_node\n" : "\n";
    const auto or_empty = [](auto value, bool known) {
        return known ? fmt::format("{}", value) : std::string();
    };
    for (const TraceJob& job : jobs) {
        out += fmt::format("{},{:.3f},{},{},,{},{},{},{},{},{:.0f}", job.id, job.submit_s,
                           or_empty(job.num_iteration, job.num_iteration > 0), job.model,
                           or_empty(job.batch, job.batch > 0), job.gpus, job.gpu_type, job.account,
                           job.priority, job.time_limit_s);
        if (recorded)
            out += fmt::format(",{:.3f},{},{}", job.run_s,
                               or_empty(fmt::format("{:.3f}", job.start_s), job.start_s >= 0),
                               or_empty(job.nodes, job.nodes > 0));
        out += '\n';
    }
    return out;
}

bool Throughputs::knows_model(const std::string& model) const {
    const auto at = rows.lower_bound({model, 0});
    return at != rows.end() && at->first.first == model;
}

Result<Throughputs> parse_throughputs(std::string_view text, const std::string& name) {
    Result<Csv> opened = Csv::open(
        text, name, {"model", "params", "global_batch", "gpu_type", "num_nodes", "gpus_per_node"});
    if (!opened) return opened.error();
    Csv& csv = *opened;
    const bool has_times = csv.has("iter_time_s");
    if (!has_times && !(csv.has("throughput_samples_per_s") && csv.has("feasible"))) {
        return usage_error(
            "the header line needs a column iter_time_s, or throughput_samples_per_s "
            "and feasible",
            csv.where());
    }
    Throughputs table;
    std::set<std::tuple<std::string, std::int64_t, std::string, std::int64_t, std::int64_t>> seen;
    while (csv.next()) {
        const std::string model =
            fmt::format("{}__{}", csv.word("model", limits::name_bytes), csv.word("params", 32));
        const std::int64_t batch = csv.integer("global_batch", 1, limits::batch);
        Row row;
        row.gpu_type = csv.word("gpu_type", limits::name_bytes);
        row.nodes = csv.integer("num_nodes", 1, limits::gpus);
        row.gpus_per_node = csv.integer("gpus_per_node", 1, limits::gpus_per_node);
        row.iteration_s = has_times ? time_of_row(csv) : time_of_view_row(csv, batch);
        if (!seen.emplace(model, batch, row.gpu_type, row.nodes, row.gpus_per_node).second) {
            csv.refuse("this model, batch and layout is given twice");
        }
        auto& rows = table.rows[{model, batch}];
        if (row.iteration_s > 0 && row.iteration_s <= longest_iteration_s) rows.push_back(row);
    }
    if (csv.error()) return *csv.error();
    if (table.rows.empty()) return usage_error("the table has no rows", name + ":1");
    return table;
}

}  // namespace arena::sim
