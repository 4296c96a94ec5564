// SPDX-License-Identifier: GPL-2.0-or-later
// The trace generator: see generate.h.
#include "sim/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <tuple>

#include "sim/random.h"
#include "sim/workload.h"

namespace arena::sim {
namespace {

constexpr double diurnal_swing = 0.8;
constexpr std::array<std::pair<std::int64_t, double>, 5> sizes{
    {{1, 0.35}, {2, 0.25}, {4, 0.20}, {8, 0.13}, {16, 0.07}}};
constexpr std::array<std::int64_t, 4> odd_sizes{3, 6, 12, 24};

class Generator {
  public:
    Generator(const Cluster& cluster, const Throughputs& table, const GeneratorOptions& options)
        : cluster_(cluster), table_(table), options_(options), random_(options.seed) {}
    Result<std::vector<TraceJob>> generate();

  private:
    void find_models();
    Status balance_types();
    [[nodiscard]] double weight_of(const NodeGroup&) const;
    [[nodiscard]] Result<std::map<std::string, double>> demand_on(
        const std::string& gpu_type) const;
    [[nodiscard]] WorkloadOptions binding() const;
    TraceJob draw();
    TraceJob draw_fresh();
    [[nodiscard]] std::string draw_type();
    std::int64_t draw_size();
    std::string draw_account();
    Status set_times(std::vector<TraceJob>&);
    double next_arrival(double now_s, double mean_gap_s);

    const Cluster& cluster_;
    const Throughputs& table_;
    const GeneratorOptions& options_;
    Random random_;
    std::vector<std::pair<std::string, std::int64_t>> models_;  ///< usable on the cluster
    std::map<std::string, double>
        factors_;  ///< by GPU type: how much more often it is asked for than GPUs say
};

void Generator::find_models() {
    const auto types = cluster_.gpu_types();
    for (const auto& [key, rows] : table_.rows) {
        const bool usable = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
            return std::find(types.begin(), types.end(), row.gpu_type) != types.end();
        });
        if (usable) models_.push_back(key);
    }
}

WorkloadOptions Generator::binding() const {
    WorkloadOptions options;
    options.iteration_divisor = options_.iteration_divisor;
    options.trace_name = "generated";
    return options;
}

/// GPU-seconds, by the type on which they end up, of all jobs of the mix if they asked for this
/// one.
Result<std::map<std::string, double>> Generator::demand_on(const std::string& gpu_type) const {
    std::vector<TraceJob> jobs = options_.mix;
    for (TraceJob& job : jobs) job.gpu_type = gpu_type;
    const Result<Workload> bound = bind_workload(cluster_, jobs, table_, binding());
    if (!bound) return bound.error();
    std::map<std::string, double> demand;
    for (const SimJob& job : bound->jobs) {
        const Offer& asked = bound->profiles[job.profile].offers[job.asked];
        demand[asked.grid.gpu_type] +=
            job.iterations * asked.estimate.iteration_s * static_cast<double>(asked.grid.gpus());
    }
    return demand;
}

double Generator::weight_of(const NodeGroup& group) const {
    const auto at = factors_.find(group.gpu_type);
    return static_cast<double>(group.count * group.gpus_per_node) *
           (at == factors_.end() ? 1 : at->second);
}

/// Jobs of a mix bring their work, which takes longer on slow types; they ask for types such that
/// all have the same load. Were one overloaded, its queue would grow with the trace, at whatever
/// load of the whole.
Status Generator::balance_types() {
    std::map<std::string, double> gpus;
    for (const NodeGroup& group : cluster_.groups) gpus[group.gpu_type] += weight_of(group);
    std::map<std::string, std::map<std::string, double>> demand;
    for (const auto& [type, count] : gpus) {
        auto of_type = demand_on(type);
        if (!of_type) return of_type.error();
        demand[type] = std::move(*of_type);
        factors_[type] = 1;
    }
    constexpr int steps = 100;
    for (int i = 0; i < steps; ++i) {
        std::map<std::string, double> load;
        for (const auto& [asked, landed] : demand)
            for (const auto& [type, gpu_s] : landed)
                load[type] += gpus[asked] * factors_[asked] * gpu_s / gpus[type];
        double mean = 0;
        for (const auto& [type, value] : load) mean += value / static_cast<double>(load.size());
        for (auto& [type, factor] : factors_)
            factor *= load[type] > 0 ? std::sqrt(mean / load[type]) : 0;
    }
    return Done{};
}

/// By the GPUs that the cluster has of each.
std::string Generator::draw_type() {
    double sum = 0;
    for (const NodeGroup& group : cluster_.groups) sum += weight_of(group);
    double left = random_.uniform() * sum;
    for (const NodeGroup& group : cluster_.groups) {
        left -= weight_of(group);
        if (left < 0) return group.gpu_type;
    }
    return cluster_.groups.back().gpu_type;
}

std::int64_t Generator::draw_size() {
    if (random_.uniform() < options_.odd_share) return odd_sizes[random_.below(odd_sizes.size())];
    double left = random_.uniform();
    for (const auto& [size, share] : sizes) {
        left -= share;
        if (left < 0) return size;
    }
    return sizes.back().first;
}

std::string Generator::draw_account() {
    double sum = 0;
    for (const auto& [name, share] : options_.accounts) sum += share;
    double left = random_.uniform() * sum;
    for (const auto& [name, share] : options_.accounts) {
        left -= share;
        if (left < 0) return name;
    }
    return options_.accounts.empty() ? "" : options_.accounts.back().first;
}

TraceJob Generator::draw_fresh() {
    TraceJob job;
    std::tie(job.model, job.batch) = models_[random_.below(models_.size())];
    job.gpu_type = draw_type();
    job.gpus = draw_size();
    return job;
}

TraceJob Generator::draw() {
    TraceJob job =
        options_.mix.empty() ? draw_fresh() : options_.mix[random_.below(options_.mix.size())];
    if (!options_.mix.empty()) job.gpu_type = draw_type();
    job.account = draw_account();
    job.priority =
        static_cast<double>(random_.below(static_cast<std::size_t>(options_.priorities)));
    job.time_limit_s = 0;
    job.submit_s = 0;
    return job;
}

/// The next arrival of a Poisson process whose rate follows the day, by thinning.
double Generator::next_arrival(double now_s, double mean_gap_s) {
    if (!options_.diurnal) return now_s + random_.exponential(mean_gap_s);
    for (;;) {
        now_s += random_.exponential(mean_gap_s / (1 + diurnal_swing));
        const double rate = 1 + diurnal_swing * std::sin(2 * std::numbers::pi * now_s / day_s);
        if (random_.uniform() * (1 + diurnal_swing) < rate) return now_s;
    }
}

/// Binding once tells what each job's request turns into, and so its speed.
Status Generator::set_times(std::vector<TraceJob>& jobs) {
    const WorkloadOptions options = binding();
    for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].line = i;
    const Result<Workload> bound = bind_workload(cluster_, jobs, table_, options);
    if (!bound) return bound.error();
    double gpu_s = 0;
    std::vector<TraceJob> kept;
    kept.reserve(bound->jobs.size());
    std::size_t at = 0;
    for (TraceJob& job : jobs) {
        if (at == bound->jobs.size() || bound->jobs[at].name != job.id) continue;
        const SimJob& sim = bound->jobs[at++];
        const Offer& asked = bound->profiles[sim.profile].offers[sim.asked];
        double iterations = sim.iterations;
        if (options_.mix.empty()) {
            const double run_s = options_.median_s * std::exp(options_.sigma * random_.normal());
            iterations = std::max(1.0, std::round(run_s / asked.estimate.iteration_s));
            job.num_iteration = static_cast<std::int64_t>(iterations) * options_.iteration_divisor;
        }
        const double run_s = iterations * asked.estimate.iteration_s + options.limit_slack_s;
        job.time_limit_s = std::ceil(run_s * random_.uniform(1, 5));
        gpu_s += run_s * static_cast<double>(asked.grid.gpus());
        kept.push_back(std::move(job));
    }
    jobs = std::move(kept);
    const double mean_gap_s = gpu_s / static_cast<double>(jobs.size()) /
                              (options_.load * static_cast<double>(cluster_.gpus()));
    double now_s = 0;
    for (TraceJob& job : jobs) job.submit_s = now_s = next_arrival(now_s, mean_gap_s);
    return Done{};
}

Result<std::vector<TraceJob>> Generator::generate() {
    find_models();
    if (models_.empty())
        return usage_error("no row of the throughput table is usable on the cluster");
    if (const Status status = options_.mix.empty() ? Status(Done{}) : balance_types(); !status)
        return status.error();
    std::vector<TraceJob> jobs;
    jobs.reserve(static_cast<std::size_t>(options_.jobs));
    for (std::int64_t i = 0; i < options_.jobs; ++i) {
        TraceJob job = draw();
        job.id = fmt::format("g{}", i + 1);
        if (job.num_iteration == 0) job.num_iteration = 1;
        jobs.push_back(std::move(job));
    }
    if (const Status status = set_times(jobs); !status) return status.error();
    return jobs;
}

}  // namespace

Result<std::vector<TraceJob>> generate_trace(const Cluster& cluster, const Throughputs& table,
                                             const GeneratorOptions& options) {
    return Generator(cluster, table, options).generate();
}

}  // namespace arena::sim
