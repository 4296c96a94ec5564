// SPDX-License-Identifier: GPL-2.0-or-later
// What a simulation reads: the cluster (YAML), a trace of jobs (CSV), a table of iteration times
// (CSV). Readers refuse what they do not understand with one sentence and file:line; they guess
// nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/offer.h"
#include "sim/power/power.h"

namespace arena::sim {

struct NodeGroup {
    std::string gpu_type;
    std::int64_t count = 0;          ///< nodes, 1..limits::gpus
    std::int64_t gpus_per_node = 0;  ///< 1..1024
    std::string prefix;      ///< nodes are PREFIX1, PREFIX2, ... counted over all groups with it
    bool inference = false;  ///< they are inference's: jobs may use them while they are lent
    std::int64_t leaf_nodes = 0;  ///< nodes below a leaf switch; 0: nothing is known of the network
    std::int64_t pod_leaves = 0;  ///< leaves of a pod; 0: all hang on one switch
    std::int64_t domain_nodes = 0;  ///< nodes of a rack, an NVLink domain; 0: there are none
    PowerRule power;                ///< none of inference's sleeps
    bool operator==(const NodeGroup&) const = default;
};

struct Cluster {
    std::vector<NodeGroup> groups;
    double inter_gbps_per_node = 0;  ///< for the planner; 0 = not given
    /// Times less than inside a leaf or rack that a node gets above it, and than in a pod above
    /// that.
    double leaf_oversubscription = 1, pod_oversubscription = 1;
    std::map<std::string, double> shares;  ///< account -> share, from `accounts:`; may be empty
    /// In the order of the file, each once.
    [[nodiscard]] std::vector<std::string> gpu_types() const;
    [[nodiscard]] std::int64_t gpus() const;
    bool operator==(const Cluster&) const = default;
};

/// `nodes:` a list of {gpu_type, count, gpus_per_node, name, inference, leaf_nodes, pod_leaves,
/// domain_nodes, boot_s, suspend_s}, `inter_gbps_per_node`, `oversubscription:` {leaf, pod},
/// `accounts:` a map of shares. All groups have leaf_nodes, all have domain_nodes, or none has
/// either. At most limits::gpus nodes.
Result<Cluster> parse_cluster(std::string_view text, std::string_view name);

struct TraceJob {
    std::string id;
    double submit_s = 0;             ///< as in the file
    std::int64_t num_iteration = 0;  ///< as in the file, before the divisor; 0 with run_s
    std::string model;               ///< family__size; "": not known, the job runs as it ran
    std::int64_t batch = 0;
    std::int64_t gpus = 0;    ///< asked for
    std::string gpu_type;     ///< asked for
    std::string account;      ///< optional column
    double priority = 0;      ///< optional column, larger first
    double time_limit_s = 0;  ///< optional column; 0 = none given
    double run_s = 0;         ///< optional: a recorded run as asked for, its start-up included
    double start_s = -1;      ///< optional: when that began, as submit_s; below 0: not known
    std::int64_t nodes = 0;   ///< optional: of a recorded run; 0: not known
    std::size_t line = 0;     ///< in the file, for later refusals
};

/// Columns job_id, submission_time, num_iteration, model_name, batch_size, num_gpu, gpu_type;
/// optional account, priority, time_limit, run_time, start_time, num_node; others (deadline) are
/// ignored. With run_time, num_iteration may be empty: the work is what that run did. Then
/// model_name and batch_size may be, too. Refuses ids given twice, anything negative or not finite,
/// an empty trace, and rows out of the order of submission; only disorder of at most a hundredth of
/// the trace's span, as merged logs have it, is put in order.
Result<std::vector<TraceJob>> parse_trace(std::string_view text, const std::string& name);
/// The same columns; those of recorded runs only where there are any.
std::string format_trace(const std::vector<TraceJob>&);

struct Row {
    std::string gpu_type;
    std::int64_t nodes = 1, gpus_per_node = 1;
    double iteration_s = 0;
    Plan plan = {};  ///< of the planner; without stages where the time was measured
    Source source = Source::profiled;
    double communication_share = -1;  ///< of the iteration; below 0: not known
    SpanFactors slower = {1, 1};      ///< as Offer has it; of the planner
    std::int64_t segment = 1;         ///< the same
    [[nodiscard]] std::int64_t gpus() const { return nodes * gpus_per_node; }
};

/// Iteration times by (family__size, global batch): usable rows only. A key without usable rows is
/// kept with an empty list, so that a known model with no row can be told from an unknown one.
struct Throughputs {
    std::map<std::pair<std::string, std::int64_t>, std::vector<Row>> rows;
    [[nodiscard]] bool knows_model(const std::string& model) const;
};

/// Columns model, params, global_batch, gpu_type, num_nodes, gpus_per_node and either iter_time_s
/// (usable when measured_ok and usable_in_simulator, where present, are 1) or
/// throughput_samples_per_s with feasible and derivation (usable when feasible and `direct`:
/// nothing extrapolated). A usable row needs a time above 0; longer than 300 s is not usable.
/// Refuses the same layout given twice.
Result<Throughputs> parse_throughputs(std::string_view text, const std::string& name);

}  // namespace arena::sim
