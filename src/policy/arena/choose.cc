// SPDX-License-Identifier: GPL-2.0-or-later
// See choose.h.
#include "policy/arena/choose.h"

#include <algorithm>

#include "policy/knapsack.h"

namespace arena {
namespace {

/// Position in options.shares; those without a share count together, after them.
std::size_t account_of(const Problem& problem, const Task& task) {
    const auto& shares = problem.options().shares;
    return static_cast<std::size_t>(std::distance(shares.begin(), shares.find(task.job->account)));
}

/// factors: of accounts' values; empty: all 1. Takes its steps off those of the selection.
Knapsack fill(const Problem& problem, std::span<const double> factors,
              std::span<const double> values) {
    std::vector<std::int64_t> capacity;
    for (std::size_t t = 0; t < problem.types(); ++t) capacity.push_back(problem.capacity(t));
    Knapsack knapsack(std::move(capacity));
    knapsack.reserve(problem.tasks().size(), values.size());
    for (const Task& task : problem.tasks()) {
        knapsack.add_group();
        const double factor = factors.empty() ? 1 : factors[account_of(problem, task)];
        std::size_t at = task.first_choice;
        for (const Choice& c : problem.choices(task))
            knapsack.add({c.type, c.gpus, factor * values[at++]});
    }
    return knapsack;
}

std::vector<std::int32_t> solve(const Problem& problem, Knapsack& knapsack, std::int64_t& steps) {
    const std::int64_t budget = problem.options().search_steps;
    std::vector<std::int32_t> chosen = knapsack.solve(budget);
    steps -= budget - knapsack.steps_left();
    return chosen;
}

/// Moves the accounts' factors towards their shares of what is given out. Answers how far the
/// furthest account is below its share; accounts without tasks, or with all they can use, lack
/// nothing.
double balance(const Problem& problem, const std::vector<std::int32_t>& chosen,
               std::vector<double>& factors) {
    std::vector<double> used(factors.size(), 0), share(factors.size(), 0);
    std::vector<bool> wants(factors.size(), false);
    double all_used = 0, all_shares = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        const Task& task = problem.tasks()[i];
        const std::size_t a = account_of(problem, task);
        share[a] = 1;
        if (chosen[i] < 0) wants[a] = true;
        if (chosen[i] < 0) continue;
        const auto gpus =
            static_cast<double>(problem.choices(task)[static_cast<std::size_t>(chosen[i])].gpus);
        used[a] += gpus;
        all_used += gpus;
    }
    std::size_t a = 0;
    for (const auto& [name, value] : problem.options().shares) share[a++] *= value;
    for (const double s : share) all_shares += s;
    double worst = 0;
    for (a = 0; a < factors.size(); ++a) {
        if (share[a] == 0 || all_used == 0) continue;
        const double fair = share[a] / all_shares, has = used[a] / all_used;
        if (wants[a]) worst = std::max(worst, fair - has);
        const double step = std::clamp(fair / std::max(has, 1e-3), 0.5, 2.0);
        factors[a] *= step;
    }
    return worst;
}

}  // namespace

bool has_shares(const Problem& problem) {
    const auto& tasks = problem.tasks();
    return !problem.options().shares.empty() &&
           std::any_of(tasks.begin(), tasks.end(), [&](const Task& task) {
               return account_of(problem, task) != account_of(problem, tasks.front());
           });
}

void choose_anew(const Problem& problem, std::span<const double> values, Selection& selection) {
    Knapsack knapsack = fill(problem, {}, values);
    selection.chosen = solve(problem, knapsack, selection.steps);
}

Selection choose(const Problem& problem, std::span<const double> values, const ArenaRules& rules) {
    Selection best;
    best.steps = problem.options().search_steps;
    Knapsack knapsack = fill(problem, {}, values);
    best.chosen = solve(problem, knapsack, best.steps);
    best.gpu_prices = knapsack.prices();
    best.exact = knapsack.solved_exactly();
    if (!has_shares(problem)) return best;
    std::vector<double> factors(problem.options().shares.size() + 1, 1.0);
    double least = balance(problem, best.chosen, factors);
    for (int i = 0; i < rules.share_rounds && least > 0; ++i) {
        Knapsack scaled = fill(problem, factors, values);
        std::vector<std::int32_t> other = solve(problem, scaled, best.steps);
        const double lacking = balance(problem, other, factors);
        if (lacking >= least) continue;
        least = lacking;
        best.chosen = std::move(other);
    }
    return best;
}

}  // namespace arena
