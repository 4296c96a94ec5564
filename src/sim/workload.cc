// SPDX-License-Identifier: GPL-2.0-or-later
// Trace, cluster and table become jobs with offers: see workload.h.
#include "sim/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/text.h"
#include "sim/random.h"

namespace arena::sim {
namespace {

/// Standard normal number that depends on the key alone.
double normal(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
    return Random(splitmix(splitmix(seed) ^ a) ^ b).normal();
}

/// The same, in (0, 1).
double uniform(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
    return Random(splitmix(splitmix(seed) ^ a) ^ b).uniform();
}

/// Streams of random numbers by job that are no offer's.
constexpr std::uint64_t said_stream = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t elastic_stream = said_stream - 1, limit_stream = said_stream - 2,
                        wrong_stream = said_stream - 3, liar_stream = said_stream - 4;

constexpr std::int64_t plenty = std::int64_t{1} << 40;

std::vector<NodeState> make_nodes(const Cluster& cluster) {
    std::vector<NodeState> nodes;
    std::map<std::string, std::int64_t> named;
    for (const NodeGroup& group : cluster.groups) {
        for (std::int64_t i = 0; i < group.count; ++i) {
            const std::string name = fmt::format("{}{}", group.prefix, ++named[group.prefix]);
            nodes.push_back(
                {name, group.gpu_type, group.gpus_per_node, group.gpus_per_node, plenty, plenty});
        }
    }
    return nodes;
}

std::vector<NodeState> make_pools(const Cluster& cluster, const std::vector<NodeState>& nodes) {
    std::vector<NodeState> pools;
    for (const std::string& type : cluster.gpu_types()) {
        NodeState& pool = pools.emplace_back(NodeState{
            .name = type, .gpu_type = type, .free_cpus = plenty, .free_memory_mb = plenty});
        for (const NodeState& node : nodes) {
            if (node.gpu_type == type) pool.total_gpus += node.total_gpus;
        }
        pool.free_gpus = pool.total_gpus;
    }
    return pools;
}

/// The last leaf, pod and rack so far.
struct Opened {
    std::int64_t leaf = 0, pod = 0, rack = 0;
};

/// What the group's next node hangs on, before which there are so many of it.
std::vector<std::string> path_of_next(const NodeGroup& group, std::int64_t before, Opened& last) {
    if (group.domain_nodes > 0) {
        if (before % group.domain_nodes == 0) ++last.rack;
        return {fmt::format("rack{}", last.rack)};
    }
    if (before % group.leaf_nodes == 0) ++last.leaf;
    std::vector<std::string> path{"core"};
    if (group.pod_leaves > 0) {
        if (before % (group.leaf_nodes * group.pod_leaves) == 0) ++last.pod;
        path.push_back(fmt::format("pod{}", last.pod));
    }
    path.push_back(fmt::format("leaf{}", last.leaf));
    return path;
}

NetworkKind network_kind(const Cluster& cluster) {
    const NodeGroup& any = cluster.groups.front();
    return any.domain_nodes > 0 ? NetworkKind::block
           : any.leaf_nodes > 0 ? NetworkKind::tree
                                : NetworkKind::flat;
}

/// In the order of make_nodes().
std::vector<PowerRule> power_of(const Cluster& cluster) {
    std::vector<PowerRule> rules;
    bool some = false;
    for (const NodeGroup& group : cluster.groups) {
        rules.insert(rules.end(), static_cast<std::size_t>(group.count), group.power);
        some = some || group.power.suspend_s > 0;
    }
    if (!some) rules.clear();
    return rules;
}

/// The same.
std::vector<NodeIndex> inference_of(const Cluster& cluster) {
    std::vector<NodeIndex> list;
    NodeIndex next = 0;
    for (const NodeGroup& group : cluster.groups)
        for (std::int64_t i = 0; i < group.count; ++i, ++next)
            if (group.inference) list.push_back(next);
    return list;
}

/// The nodes of one type: GPUs per node -> nodes that have at least so many.
using Widths = std::map<std::int64_t, std::int64_t>;
using TypeWidths = std::map<std::string, Widths>;

TypeWidths count_widths(const std::vector<NodeState>& nodes) {
    TypeWidths widths;
    for (const NodeState& node : nodes) {
        Widths& of_type = widths[node.gpu_type];
        for (std::int64_t g = 1; g <= node.total_gpus; ++g) ++of_type[g];
    }
    return widths;
}

/// The equal split of the GPUs over the fewest nodes that the empty cluster holds.
std::optional<Grid> widest_grid(const std::string& type, std::int64_t gpus, const Widths& widths) {
    for (auto at = widths.rbegin(); at != widths.rend(); ++at) {
        const auto& [per_node, nodes] = *at;
        if (gpus % per_node == 0 && gpus / per_node <= nodes) {
            return Grid{type, gpus / per_node, per_node, 1};
        }
    }
    return std::nullopt;
}

/// Of an iteration what its nodes may wait for each other: by its table, else what it takes longer
/// than the best count of one node would, were nothing lost between nodes.
double share_between_nodes(const Offer& offer, double known, const std::vector<Offer>& offers) {
    if (known >= 0) return known;
    const auto gpu_s = [](const Offer& o) {
        return o.estimate.iteration_s * static_cast<double>(o.grid.gpus());
    };
    double least = gpu_s(offer);
    for (const Offer& other : offers)
        if (other.grid.gpu_type == offer.grid.gpu_type && other.grid.nodes == 1)
            least = std::min(least, gpu_s(other));
    return 1 - least / gpu_s(offer);
}

/// What the network costs the offers of a profile where their rows do not say it.
void set_slower(const Cluster& cluster, Profile& profile) {
    const double leaf = cluster.leaf_oversubscription, pod = leaf * cluster.pod_oversubscription;
    std::vector<Offer>& offers = profile.offers.own();
    for (std::size_t i = 0; pod > 1 && i < offers.size(); ++i) {
        if (offers[i].knows_spans()) continue;
        const double share =
            share_between_nodes(offers[i], profile.communication_shares[i], offers);
        offers[i].slower = {1 + share * (leaf - 1), 1 + share * (pod - 1)};
    }
}

Profile make_profile(const Cluster& cluster, const std::string& model, std::int64_t batch,
                     const std::vector<Row>& rows, const TypeWidths& widths) {
    std::map<std::tuple<std::string, std::int64_t, bool>, const Row*> best;
    for (const Row& row : rows) {
        if (!widths.contains(row.gpu_type)) continue;
        const Row*& at = best[{row.gpu_type, row.gpus(), row.segment > 1}];
        if (at == nullptr || row.iteration_s < at->iteration_s) at = &row;
    }
    std::vector<std::pair<Offer, double>> found;  // with the share of its communication
    for (const auto& [key, row] : best) {
        const auto grid = widest_grid(row->gpu_type, row->gpus(), widths.at(row->gpu_type));
        // A segment is of nodes of the row's layout. With pools there are no such nodes.
        if (!grid || (row->segment > 1 && grid->nodes != row->nodes)) continue;
        Offer offer;
        offer.grid = *grid;
        offer.grid.stages = std::max<std::int64_t>(1, row->plan.pp());
        offer.plan = row->plan;
        offer.estimate.iteration_s = row->iteration_s;
        offer.estimate.samples_per_s = static_cast<double>(batch) / row->iteration_s;
        offer.estimate.source = row->source;
        offer.slower = row->slower;
        offer.segment = row->segment;
        found.emplace_back(std::move(offer), row->communication_share);
    }
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
        return std::tie(a.first.estimate.iteration_s, a.first.grid, a.first.segment) <
               std::tie(b.first.estimate.iteration_s, b.first.grid, b.first.segment);
    });
    Profile profile{model, batch, {}, {}};
    std::vector<Offer>& offers = profile.offers.own();
    for (auto& [offer, share] : found) {
        offers.push_back(std::move(offer));
        profile.communication_shares.push_back(share);
    }
    set_slower(cluster, profile);
    return profile;
}

/// Offer of the type with the least count >= gpus, else with the largest, and of these that of the
/// least segment; -1 when the type has none.
int nearest_count(const Profile& profile, std::string_view type, std::int64_t gpus) {
    int nearest = -1;
    const auto rank = [&](int i) {
        const Offer& offer = profile.offers[static_cast<std::size_t>(i)];
        const std::int64_t count = offer.grid.gpus();
        return std::tuple(count < gpus, count < gpus ? -count : count, offer.segment);
    };
    for (int i = 0; i < static_cast<int>(profile.offers.size()); ++i) {
        if (profile.offers[static_cast<std::size_t>(i)].grid.gpu_type != type) continue;
        if (nearest < 0 || rank(i) < rank(nearest)) nearest = i;
    }
    return nearest;
}

class Binder {
  public:
    Binder(const Cluster& cluster, const Throughputs& table, const WorkloadOptions& options)
        : cluster_(cluster), table_(table), options_(options) {
        if (options.placement == PlacementRule::nodes) {
            Snapshot laid = lay_out(cluster);
            out_.nodes = std::move(laid.nodes);
            out_.topology = laid.topology;
            out_.switches = std::move(laid.switches);
            out_.inference_nodes = inference_of(cluster);
            out_.power = power_of(cluster);
        } else {
            out_.nodes = make_pools(cluster, make_nodes(cluster));
        }
        out_.gpu_types = cluster.gpu_types();
        out_.shares = cluster.shares;
        out_.accounts = {""};
        widths_ = count_widths(out_.nodes);
    }
    Result<Workload> bind(const std::vector<TraceJob>& trace);

  private:
    Result<std::uint32_t> profile_of(const TraceJob&);
    std::uint32_t profile_as_requested(const TraceJob&);
    [[nodiscard]] std::optional<Grid> grid_of(const TraceJob&) const;
    [[nodiscard]] double iterations_of(const TraceJob&, const Offer&) const;
    Status check_type(const TraceJob&) const;
    [[nodiscard]] int request_of(const TraceJob&, const Profile&) const;
    std::uint32_t account_of(const std::string&);
    void add(const TraceJob&, std::uint32_t profile, int asked);
    [[nodiscard]] std::string where(const TraceJob& job) const {
        return fmt::format("{}:{}", options_.trace_name, job.line);
    }

    const Cluster& cluster_;
    const Throughputs& table_;
    const WorkloadOptions& options_;
    TypeWidths widths_;
    std::map<std::pair<std::string, std::int64_t>, std::uint32_t> profiles_;
    std::map<std::optional<Grid>, std::uint32_t> rigid_profiles_;
    std::map<std::string, std::uint32_t> account_index_;
    double zero_s_ = 0;
    Workload out_;
};

Status Binder::check_type(const TraceJob& job) const {
    if (widths_.contains(job.gpu_type)) return Done{};
    for (const auto& [key, rows] : table_.rows) {
        for (const Row& row : rows) {
            if (row.gpu_type == job.gpu_type) return Done{};
        }
    }
    return usage_error(fmt::format("gpu_type: \"{}\" is in neither the cluster nor the throughput "
                                   "table; the cluster has {}",
                                   printable(job.gpu_type), join(out_.gpu_types, ", ")),
                       where(job));
}

/// On as many nodes as it had, where that is an equal split that the cluster holds.
std::optional<Grid> Binder::grid_of(const TraceJob& job) const {
    const auto widths = widths_.find(job.gpu_type);
    if (widths == widths_.end()) return std::nullopt;
    if (job.nodes > 0 && job.gpus % job.nodes == 0) {
        const auto nodes = widths->second.find(job.gpus / job.nodes);
        if (nodes != widths->second.end() && job.nodes <= nodes->second)
            return Grid{job.gpu_type, job.nodes, job.gpus / job.nodes, 1};
    }
    return widest_grid(job.gpu_type, job.gpus, widths->second);
}

std::uint32_t Binder::profile_as_requested(const TraceJob& job) {
    const std::optional<Grid> grid = grid_of(job);
    const auto [at, is_new] =
        rigid_profiles_.emplace(grid, static_cast<std::uint32_t>(out_.profiles.size()));
    if (!is_new) return at->second;
    Profile& profile = out_.profiles.emplace_back();
    profile.batch = 1;
    if (!grid) return at->second;
    Offer offer;
    offer.grid = *grid;
    offer.estimate.iteration_s = offer.estimate.samples_per_s = 1;
    profile.offers.push_back(std::move(offer));
    profile.communication_shares.push_back(0);
    return at->second;
}

Result<std::uint32_t> Binder::profile_of(const TraceJob& job) {
    if (job.model.empty()) return profile_as_requested(job);
    const std::pair<std::string, std::int64_t> key{job.model, job.batch};
    if (const auto at = profiles_.find(key); at != profiles_.end()) return at->second;
    const auto rows = table_.rows.find(key);
    if (rows == table_.rows.end() && !table_.knows_model(job.model)) {
        return usage_error(fmt::format("model_name: the throughput table has no row of \"{}\"",
                                       printable(job.model)),
                           where(job));
    }
    const auto index = static_cast<std::uint32_t>(out_.profiles.size());
    static const std::vector<Row> none;
    out_.profiles.push_back(make_profile(cluster_, job.model, job.batch,
                                         rows == table_.rows.end() ? none : rows->second, widths_));
    profiles_[key] = index;
    return index;
}

int Binder::request_of(const TraceJob& job, const Profile& profile) const {
    int asked = nearest_count(profile, job.gpu_type, job.gpus);
    for (const std::string& type : out_.gpu_types) {
        if (asked >= 0) break;
        asked = nearest_count(profile, type, job.gpus);
    }
    return asked;
}

std::uint32_t Binder::account_of(const std::string& name) {
    if (name.empty()) return 0;
    const auto [at, is_new] =
        account_index_.emplace(name, static_cast<std::uint32_t>(out_.accounts.size()));
    if (is_new) out_.accounts.push_back(name);
    return at->second;
}

double Binder::iterations_of(const TraceJob& job, const Offer& asked) const {
    if (job.run_s > 0) return job.run_s / asked.estimate.iteration_s;
    return static_cast<double>(
        std::max<std::int64_t>(1, job.num_iteration / options_.iteration_divisor));
}

void Binder::add(const TraceJob& job, std::uint32_t profile, int asked) {
    if (out_.jobs.empty()) zero_s_ = job.submit_s;
    SimJob out;
    out.name = job.id;
    out.submit_s = job.submit_s - zero_s_;
    out.recorded = job.run_s > 0;
    out.rigid = job.model.empty();
    if (job.start_s >= 0) out.started_s = job.start_s - zero_s_;
    out.profile = profile;
    out.asked = static_cast<std::uint32_t>(asked);
    out.account = account_of(job.account);
    out.priority = job.priority;
    const Offer& offer = out_.profiles[profile].offers[out.asked];
    out.iterations = iterations_of(job, offer);
    out.limit_stated = job.time_limit_s > 0;
    out.time_limit_s = out.limit_stated
                           ? job.time_limit_s
                           : out.iterations * offer.estimate.iteration_s + options_.limit_slack_s;
    out_.jobs.push_back(std::move(out));
}

Result<Workload> Binder::bind(const std::vector<TraceJob>& trace) {
    for (const TraceJob& job : trace) {
        if (const Status status = check_type(job); !status) return status.error();
        const Result<std::uint32_t> profile = profile_of(job);
        if (!profile) return profile.error();
        const int asked = request_of(job, out_.profiles[*profile]);
        if (asked < 0) {
            ++out_.dropped;
        } else {
            add(job, *profile, asked);
        }
    }
    if (out_.jobs.empty()) {
        return usage_error("no job of the trace has a usable row on this cluster's GPU types",
                           where(trace.front()));
    }
    return std::move(out_);
}

}  // namespace

std::int64_t Workload::gpus() const {
    std::int64_t sum = 0;
    for (const NodeState& node : nodes) sum += node.total_gpus;
    return sum;
}

double Workload::work_factor(const Errors& errors, std::uint32_t job) {
    if (errors.work_sigma == 0) return 1;
    return std::exp(errors.work_sigma * normal(errors.seed, job, 0));
}

double Workload::said_factor(const Errors& errors, std::uint32_t job) {
    double factor = 1;
    if (const double at = uniform(errors.seed, job, wrong_stream); at < errors.wrong_share)
        factor += at < errors.wrong_share / 2 ? errors.wrong_by : -errors.wrong_by;
    if (errors.said_sigma == 0) return factor;
    return factor * std::exp(errors.said_sigma * normal(errors.seed, job, said_stream));
}

bool Workload::is_liar(const Errors& errors, std::uint32_t job) {
    return uniform(errors.seed, job, liar_stream) < errors.liar_share;
}

bool Workload::is_elastic(double share, std::uint64_t seed, std::uint32_t job) {
    return uniform(seed, job, elastic_stream) < share;
}

double Workload::limit_factor(std::uint64_t seed, std::uint32_t job) {
    return 1 + 4 * uniform(seed, job, limit_stream);
}

double Workload::time_factor(const Errors& errors, std::uint32_t job, std::size_t offer) {
    if (errors.estimate_sigma == 0) return 1;
    return std::exp(errors.estimate_sigma * normal(errors.seed, job, offer + 1));
}

Snapshot lay_out(const Cluster& cluster) {
    Snapshot out;
    out.nodes = make_nodes(cluster);
    out.topology = network_kind(cluster);
    if (out.topology == NetworkKind::flat) return out;
    SwitchTable table;
    Opened last;
    auto node = out.nodes.begin();
    for (const NodeGroup& group : cluster.groups)
        for (std::int64_t i = 0; i < group.count; ++i, ++node)
            node->leaf = table.add(path_of_next(group, i, last));
    out.switches = table.take();
    return out;
}

Result<Workload> bind_workload(const Cluster& cluster, const std::vector<TraceJob>& trace,
                               const Throughputs& table, const WorkloadOptions& options) {
    return Binder(cluster, table, options).bind(trace);
}

}  // namespace arena::sim
