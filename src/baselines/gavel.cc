// SPDX-License-Identifier: GPL-2.0-or-later
// Policies `gavel`, `gavel-las`, `gavel-informed`: see gavel.h.
#include "baselines/gavel.h"

#include <cmath>
#include <utility>

#include "baselines/allocation.h"
#include "policy/knapsack.h"

namespace arena {
namespace {

constexpr double plain_keep_bonus = 1.5;
/// The informed variant changes less easily: the best of 1.25, 1.5, 2 on the Philly trace.
constexpr double informed_keep_bonus = 1.25;
constexpr double service_unit_gpu_s = 3600, level_factor = 4;

enum class Rule { throughput, attained, informed };

class Gavel {
  public:
    Gavel(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options, Rule rule)
        : problem_(snapshot, offers, options), plan_(problem_), rule_(rule) {}
    Decision decide();

  private:
    [[nodiscard]] bool is_choice(std::size_t task, const Choice&) const;
    [[nodiscard]] double best_iteration_s(std::size_t task) const;
    [[nodiscard]] double weight(std::size_t task) const;
    [[nodiscard]] double value(std::size_t task, std::int32_t index) const;

    Problem problem_;
    Allocation plan_;
    Rule rule_;
};

/// The requested count on any type, and whatever the job runs with.
bool Gavel::is_choice(std::size_t i, const Choice& c) const {
    const std::int32_t asked = plan_.requested(i);
    return asked != Allocation::nothing && c.gpus == plan_.choice(i, asked).gpus;
}

double Gavel::best_iteration_s(std::size_t i) const {
    double best = 0;
    for (const Choice& c : problem_.choices(problem_.tasks()[i])) {
        if (is_choice(i, c) && (best == 0 || c.iteration_s < best)) best = c.iteration_s;
    }
    return best;
}

double Gavel::weight(std::size_t i) const {
    const JobState& job = *problem_.tasks()[i].job;
    if (rule_ != Rule::attained) return 1;
    const double level = std::floor(std::log2(1 + job.attained_gpu_s / service_unit_gpu_s));
    const std::int32_t asked = plan_.requested(i);
    return static_cast<double>(plan_.choice(i, asked).gpus) * std::pow(level_factor, -level);
}

double Gavel::value(std::size_t i, std::int32_t index) const {
    const bool keeps = index == plan_.current(i);
    if (rule_ == Rule::informed) {
        const double restart_s = keeps ? 0
                                       : problem_.tasks()[i].restart_s(problem_.options().restart,
                                                                       plan_.choice(i, index).gpus);
        return (keeps ? informed_keep_bonus : 1) / (plan_.left_s(i, index) + restart_s);
    }
    const double speed = best_iteration_s(i) / plan_.choice(i, index).iteration_s;
    return weight(i) * speed * (keeps ? plain_keep_bonus : 1);
}

Decision Gavel::decide() {
    std::vector<std::int64_t> capacity;
    for (std::size_t t = 0; t < problem_.types(); ++t) capacity.push_back(problem_.capacity(t));
    Knapsack knapsack(std::move(capacity));
    const auto& tasks = problem_.tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        knapsack.add_group();
        std::int32_t index = 0;
        for (const Choice& c : problem_.choices(tasks[i])) {
            knapsack.add({c.type, c.gpus, is_choice(i, c) ? value(i, index) : 0});
            ++index;
        }
    }
    const auto chosen = knapsack.solve(problem_.options().search_steps);
    for (std::size_t i = 0; i < tasks.size(); ++i) plan_.set(i, chosen[i]);
    return plan_.realise("the type that adds most to all jobs' throughput");
}

}  // namespace

Decision decide_gavel(const Snapshot& snapshot, const Offers& offers,
                      const PolicyOptions& options) {
    return Gavel(snapshot, offers, options, Rule::throughput).decide();
}

Decision decide_gavel_las(const Snapshot& snapshot, const Offers& offers,
                          const PolicyOptions& options) {
    return Gavel(snapshot, offers, options, Rule::attained).decide();
}

Decision decide_gavel_informed(const Snapshot& snapshot, const Offers& offers,
                               const PolicyOptions& options) {
    return Gavel(snapshot, offers, options, Rule::informed).decide();
}

}  // namespace arena
