// SPDX-License-Identifier: GPL-2.0-or-later
// The Lagrangian bound: see lower_bound.h.
#include "sim/lower_bound.h"

#include <algorithm>
#include <cmath>

namespace arena::sim {
namespace {

constexpr double first_price = 0.5, first_step = 0.5, last_step = 0.004, least_price = 1e-6;
constexpr int multiplier_steps = 16;

struct Config {
    std::size_t type;
    double gpus, run_s;  ///< for the whole work
};

struct BoundJob {
    double ready_s = 0;  ///< first possible progress
    double submit_s = 0;
    double fastest_s = 0;
    double multiplier = 0;  ///< of the work, from the last round
    std::vector<Config> configs;
};

class Relaxation {
  public:
    Relaxation(const Workload& workload, const BoundOptions& options);
    Bound solve();

  private:
    void add_job(const Workload&, std::uint32_t index);
    void make_slots();
    [[nodiscard]] bool finite() const { return options_.max_time_s < 1e300; }
    [[nodiscard]] std::size_t priced_slots() const { return borders_.size() - (finite() ? 1 : 2); }
    struct Point {
        double profit = 0, work = 0;
        std::size_t config = 0;
    };
    [[nodiscard]] Point best_at(const BoundJob&, std::size_t slot, double t,
                                double multiplier) const;
    double evaluate(const BoundJob&, double multiplier, double& work, bool take);
    double cost_of(BoundJob&);
    double round();
    void move_prices(double step);
    [[nodiscard]] double& at(std::vector<double>& table, std::size_t slot, std::size_t type) const {
        return table[slot * capacity_.size() + type];
    }

    const BoundOptions& options_;
    std::vector<BoundJob> jobs_;
    std::vector<double> capacity_;
    std::vector<double> borders_;
    std::vector<double> prices_, used_;  ///< [slot][type]: s per GPU-s; GPU-s
    double alone_s_ = 0;
};

Relaxation::Relaxation(const Workload& workload, const BoundOptions& options) : options_(options) {
    for (const std::string& type : workload.gpu_types) {
        double gpus = 0;
        for (const NodeState& node : workload.nodes) {
            if (node.gpu_type == type) gpus += static_cast<double>(node.total_gpus);
        }
        capacity_.push_back(gpus);
    }
    for (std::uint32_t i = 0; i < workload.jobs.size(); ++i) {
        if (workload.jobs[i].submit_s < options.max_time_s) add_job(workload, i);
    }
    make_slots();
    prices_.assign((borders_.size() - 1) * capacity_.size(), 0);
    std::fill_n(prices_.begin(), priced_slots() * capacity_.size(), first_price);
}

void Relaxation::add_job(const Workload& workload, std::uint32_t index) {
    const SimJob& job = workload.jobs[index];
    const auto& offers = workload.profiles[job.profile].offers;
    const double work = job.iterations * Workload::work_factor(options_.errors, index);
    BoundJob out;
    out.submit_s = job.submit_s;
    out.fastest_s = std::numeric_limits<double>::infinity();
    double start_s = out.fastest_s, alone = out.fastest_s;
    for (std::size_t o = 0; o < offers.size(); ++o) {
        const auto type = std::find(workload.gpu_types.begin(), workload.gpu_types.end(),
                                    offers[o].grid.gpu_type) -
                          workload.gpu_types.begin();
        const double run_s = work * offers[o].estimate.iteration_s *
                             Workload::time_factor(options_.errors, index, o);
        const double restart_s = options_.restart.seconds(offers[o].grid.gpus());
        out.configs.push_back(
            {static_cast<std::size_t>(type), static_cast<double>(offers[o].grid.gpus()), run_s});
        out.fastest_s = std::min(out.fastest_s, run_s);
        start_s = std::min(start_s, restart_s);
        alone = std::min(alone, run_s + restart_s);
    }
    out.ready_s = job.submit_s + start_s;
    out.multiplier = out.ready_s + 2 * out.fastest_s;
    alone_s_ += std::min(alone, options_.max_time_s - job.submit_s);
    jobs_.push_back(std::move(out));
}

/// Equal slots up to the last time that matters: without a limit, by when all work could be done
/// twice. One slot without a price follows then.
void Relaxation::make_slots() {
    double end_s = options_.max_time_s;
    if (!finite()) {
        end_s = 0;
        double gpu_s = 0, gpus = 0;
        for (const BoundJob& job : jobs_) {
            double least = std::numeric_limits<double>::infinity();
            for (const Config& c : job.configs) least = std::min(least, c.gpus * c.run_s);
            gpu_s += least;
            end_s = std::max(end_s, job.ready_s + 2 * job.fastest_s);
        }
        for (const double c : capacity_) gpus += c;
        end_s += 2 * gpu_s / gpus;
    }
    for (int i = 0; i <= options_.slots; ++i) borders_.push_back(end_s * i / options_.slots);
    if (!finite()) borders_.push_back(1e12);
}

/// Work at t earns the multiplier, costs t and the price of its GPU time.
Relaxation::Point Relaxation::best_at(const BoundJob& job, std::size_t slot, double t,
                                      double multiplier) const {
    Point best;
    const double* prices = &prices_[slot * capacity_.size()];
    for (std::size_t c = 0; c < job.configs.size(); ++c) {
        const Config& config = job.configs[c];
        const double profit = (multiplier - t) / config.run_s - prices[config.type] * config.gpus;
        if (profit > best.profit) best = {profit, 1 / config.run_s, c};
    }
    return best;
}

/// The job's Lagrangian at the multiplier: never above its least cost. The profit is convex in t
/// within a slot, so the trapezoid is not below its integral. `take`: add what it uses.
double Relaxation::evaluate(const BoundJob& job, double multiplier, double& work, bool take) {
    double profit = 0;
    work = 0;
    auto slot =
        static_cast<std::size_t>(std::upper_bound(borders_.begin(), borders_.end(), job.ready_s) -
                                 borders_.begin()) -
        1;
    for (; slot + 1 < borders_.size(); ++slot) {
        const double from = std::max(borders_[slot], job.ready_s);
        const double to = std::min(borders_[slot + 1], multiplier);  // no profit after it
        if (to <= from) break;
        const Point a = best_at(job, slot, from, multiplier),
                    b = best_at(job, slot, to, multiplier);
        if (a.profit <= 0) continue;  // falls with t
        const double half = (to - from) / 2;
        profit += half * (a.profit + b.profit);
        work += half * (a.work + b.work);
        if (!take) continue;
        at(used_, slot, job.configs[a.config].type) += half * job.configs[a.config].gpus;
        if (b.profit > 0)
            at(used_, slot, job.configs[b.config].type) += half * job.configs[b.config].gpus;
    }
    return multiplier - profit;
}

/// Least cost of the job at the prices, from below; its use of GPUs is added.
double Relaxation::cost_of(BoundJob& job) {
    const double unfinished = options_.max_time_s - job.submit_s;
    double low = job.ready_s, high = job.multiplier, work = 0;
    evaluate(job, high, work, false);
    for (int i = 0; i < 60 && work < 1 && high < 1e13; ++i) {
        low = high;
        high = job.ready_s + (high - job.ready_s) * 1.5 + 1;
        evaluate(job, high, work, false);
    }
    if (work < 1) return unfinished;  // cannot end in time (or the bound would be infinite: never)
    if (low == job.ready_s) low = job.ready_s + (high - job.ready_s) / 2;
    for (int i = 0; i < 4; ++i) {
        evaluate(job, low, work, false);
        if (work < 1) break;
        high = low;
        low = job.ready_s + (low - job.ready_s) / 2;
    }
    for (int i = 0; i < multiplier_steps && high - low > 1e-4 * (high - job.ready_s); ++i) {
        const double middle = (low + high) / 2;
        evaluate(job, middle, work, false);
        (work < 1 ? low : high) = middle;
    }
    job.multiplier = high;
    const double ends = evaluate(job, high, work, false) + job.fastest_s / 2 - job.submit_s;
    if (ends >= unfinished) return unfinished;
    evaluate(job, high, work, true);
    return ends;
}

double Relaxation::round() {
    used_.assign(prices_.size(), 0);
    double sum = 0;
    for (BoundJob& job : jobs_) sum += cost_of(job);
    for (std::size_t s = 0; s + 1 < borders_.size(); ++s) {
        for (std::size_t t = 0; t < capacity_.size(); ++t) {
            sum -= at(prices_, s, t) * capacity_[t] * (borders_[s + 1] - borders_[s]);
        }
    }
    return sum;
}

void Relaxation::move_prices(double step) {
    for (std::size_t s = 0; s < priced_slots(); ++s) {
        for (std::size_t t = 0; t < capacity_.size(); ++t) {
            const double share = at(used_, s, t) / (capacity_[t] * (borders_[s + 1] - borders_[s]));
            double& price = at(prices_, s, t);
            price =
                std::max(least_price, price * std::exp(step * std::clamp(share - 1, -1.0, 1.0)));
        }
    }
}

/// Falling steps, and at the end the mean of the later prices, which no longer swings.
Bound Relaxation::solve() {
    double best = alone_s_;
    std::vector<double> mean(prices_.size(), 0);
    const int warm_up = options_.iterations / 2;
    for (int i = 0; i < options_.iterations; ++i) {
        best = std::max(best, round());
        const double done = static_cast<double>(i) / options_.iterations;
        move_prices(first_step * std::pow(last_step / first_step, done));
        if (i < warm_up) continue;
        for (std::size_t p = 0; p < mean.size(); ++p) {
            mean[p] += prices_[p] / (options_.iterations - warm_up);
        }
    }
    prices_ = mean;
    best = std::max(best, round());
    const auto jobs = static_cast<double>(jobs_.size());
    return {static_cast<std::int64_t>(jobs_.size()), best / jobs, alone_s_ / jobs};
}

}  // namespace

Bound lower_bound(const Workload& workload, const BoundOptions& options) {
    return Relaxation(workload, options).solve();
}

}  // namespace arena::sim
