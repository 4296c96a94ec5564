// SPDX-License-Identifier: GPL-2.0-or-later
// Policies `sia`, `sia-informed`: see sia.h.
#include "baselines/sia.h"

#include <cmath>
#include <utility>

#include "baselines/allocation.h"
#include "policy/knapsack.h"

namespace arena {
namespace {

constexpr double power = 0.5;  ///< of the normalised goodput
constexpr double placed_reward = 100, running_reward = 1;
constexpr double least_factor = 0.01;

class Sia {
  public:
    Sia(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options, bool informed)
        : problem_(snapshot, offers, options), plan_(problem_), informed_(informed) {}
    Decision decide();

  private:
    [[nodiscard]] double restart_factor(std::size_t task, std::int32_t index) const;
    [[nodiscard]] double slowest_s(std::size_t task) const;
    [[nodiscard]] bool may_take(std::size_t task, const Choice&) const;
    [[nodiscard]] double value(std::size_t task, std::int32_t index, double slowest) const;

    Problem problem_;
    Allocation plan_;
    bool informed_;
};

/// (age - restarts x cost) / (age + cost), Sia's equation, for what is not the current
/// configuration.
double Sia::restart_factor(std::size_t i, std::int32_t index) const {
    const Task& task = problem_.tasks()[i];
    if (!task.runs() || index == plan_.current(i)) return 1;
    const double cost_s = task.restart_s(problem_.options().restart, plan_.choice(i, index).gpus);
    const double spent_s = static_cast<double>(task.job->restarts) * cost_s;
    return std::max((task.job->age_s - spent_s) / (task.job->age_s + cost_s), least_factor);
}

double Sia::slowest_s(std::size_t i) const {
    double slowest = 0;
    for (const Choice& c : problem_.choices(problem_.tasks()[i])) {
        slowest = std::max(slowest, c.iteration_s);
    }
    return slowest;
}

bool Sia::may_take(std::size_t i, const Choice& c) const {
    const Task& task = problem_.tasks()[i];
    if (task.runs()) return c.gpus <= 2 * problem_.choice(task.current).gpus;
    if (!task.job->elastic && plan_.requested(i) != Allocation::nothing)
        return c.gpus == plan_.choice(i, plan_.requested(i)).gpus;
    // Choices are sorted by type, then count: the first of its type is its fewest.
    const auto choices = problem_.choices(task);
    return &c == &choices.front() || (&c - 1)->type != c.type;
}

double Sia::value(std::size_t i, std::int32_t index, double slowest) const {
    const Choice& c = plan_.choice(i, index);
    const double goodput = restart_factor(i, index) * slowest / c.iteration_s;
    const double utility = std::pow(goodput, power);
    if (informed_) return utility / (slowest * problem_.tasks()[i].remaining);
    return placed_reward + (problem_.tasks()[i].runs() ? running_reward : 0) + utility;
}

Decision Sia::decide() {
    std::vector<std::int64_t> capacity;
    for (std::size_t t = 0; t < problem_.types(); ++t) capacity.push_back(problem_.capacity(t));
    Knapsack knapsack(std::move(capacity));
    const auto& tasks = problem_.tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        knapsack.add_group();
        const double slowest = slowest_s(i);
        std::int32_t index = 0;
        for (const Choice& c : problem_.choices(tasks[i])) {
            knapsack.add({c.type, c.gpus, may_take(i, c) ? value(i, index, slowest) : 0});
            ++index;
        }
    }
    const auto chosen = knapsack.solve(problem_.options().search_steps);
    for (std::size_t i = 0; i < tasks.size(); ++i) plan_.set(i, chosen[i]);
    return plan_.realise("adds most goodput");
}

}  // namespace

Decision decide_sia(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options) {
    return Sia(snapshot, offers, options, false).decide();
}

Decision decide_sia_informed(const Snapshot& snapshot, const Offers& offers,
                             const PolicyOptions& options) {
    return Sia(snapshot, offers, options, true).decide();
}

}  // namespace arena
