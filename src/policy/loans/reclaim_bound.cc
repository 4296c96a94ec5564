// SPDX-License-Identifier: GPL-2.0-or-later
// The lower bound of reclaim.h. A job is preempted if any of its base servers is returned: x_j >=
// y_s. Multipliers l_js >= 0 that sum to w_j over the job's servers make a relaxation whose optimum
// is the sum of the `wanted` smallest server costs, sum over j of l_js; the best multipliers give
// the value of the linear programme. Subgradient ascent with Polyak's step finds good ones.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "policy/loans/reclaim.h"

namespace arena {
namespace {

class Relaxation {
  public:
    explicit Relaxation(const ReclaimProblem& problem)
        : wanted_(problem.wanted), cost_(problem.servers), cheap_(problem.servers) {
        for (const ReclaimProblem::Job& job : problem.jobs) {
            whole_ = whole_ && job.weight == std::floor(job.weight);
            if (job.spare > 0) continue;
            const std::size_t first = servers_.size();
            for (std::uint32_t p = job.first; p < job.first + job.count; ++p)
                if (problem.parts[p].is_base) servers_.push_back(problem.parts[p].server);
            if (servers_.size() == first) continue;
            jobs_.push_back({first, servers_.size(), job.weight});
        }
        multipliers_.resize(servers_.size());
        for (const Job& job : jobs_)
            std::fill(multipliers_.begin() + static_cast<std::ptrdiff_t>(job.first),
                      multipliers_.begin() + static_cast<std::ptrdiff_t>(job.end),
                      job.weight / static_cast<double>(job.end - job.first));
    }

    double ascend(int rounds, double known) {
        double best = 0, scale = 1;
        int stale = 0;
        for (int i = 0; i < rounds; ++i) {
            const double value = price();
            if (value > best + 1e-9) {
                best = value;
                stale = 0;
            } else if (++stale % 8 == 0) {
                scale *= 0.6;
            }
            if (known - best < 1e-9 || !step(scale * (known - value))) break;
        }
        return whole_ ? std::ceil(best - 1e-6) : best;
    }

  private:
    struct Job {
        std::size_t first, end;  ///< into servers_ and multipliers_
        double weight;
    };

    /// Marks the cheapest servers and adds up what they cost.
    double price() {
        std::fill(cost_.begin(), cost_.end(), 0.0);
        for (std::size_t i = 0; i < servers_.size(); ++i) cost_[servers_[i]] += multipliers_[i];
        order_.resize(cost_.size());
        std::iota(order_.begin(), order_.end(), std::size_t{0});
        std::nth_element(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(wanted_),
                         order_.end(),
                         [&](std::size_t a, std::size_t b) { return cost_[a] < cost_[b]; });
        std::fill(cheap_.begin(), cheap_.end(), 0.0);
        double sum = 0;
        for (std::size_t i = 0; i < wanted_; ++i) {
            cheap_[order_[i]] = 1;
            sum += cost_[order_[i]];
        }
        return sum;
    }

    /// One step up, by as much as `target` is above; false: no direction leads up.
    bool step(double target) {
        double square = 0;
        for (const Job& job : jobs_) {
            double mean = 0;
            for (std::size_t i = job.first; i < job.end; ++i) mean += cheap_[servers_[i]];
            mean /= static_cast<double>(job.end - job.first);
            for (std::size_t i = job.first; i < job.end; ++i)
                square += (cheap_[servers_[i]] - mean) * (cheap_[servers_[i]] - mean);
        }
        if (square < 1e-12) return false;
        for (const Job& job : jobs_) {
            for (std::size_t i = job.first; i < job.end; ++i)
                multipliers_[i] += target / square * cheap_[servers_[i]];
            project(job);
        }
        return true;
    }

    /// Onto { l >= 0, sum = weight }: the nearest point, by its threshold.
    void project(const Job& job) {
        sorted_.assign(multipliers_.begin() + static_cast<std::ptrdiff_t>(job.first),
                       multipliers_.begin() + static_cast<std::ptrdiff_t>(job.end));
        std::sort(sorted_.begin(), sorted_.end(), std::greater<>());
        double sum = 0, threshold = 0;
        for (std::size_t i = 0; i < sorted_.size(); ++i) {
            sum += sorted_[i];
            const double next = (sum - job.weight) / static_cast<double>(i + 1);
            if (sorted_[i] > next) threshold = next;
        }
        for (std::size_t i = job.first; i < job.end; ++i)
            multipliers_[i] = std::max(0.0, multipliers_[i] - threshold);
    }

    std::size_t wanted_;
    std::vector<Job> jobs_;
    std::vector<ServerIndex> servers_;
    std::vector<double> multipliers_, cost_, cheap_, sorted_;
    std::vector<std::size_t> order_;
    bool whole_ = true;
};

}  // namespace

double least_preempted_weight(const ReclaimProblem& problem, int rounds, double known) {
    if (problem.wanted == 0 || problem.servers == 0 || rounds <= 0) return 0;
    return Relaxation(problem).ascend(rounds, known);
}

}  // namespace arena
