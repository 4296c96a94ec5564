// SPDX-License-Identifier: GPL-2.0-or-later
// See price.h.
#include "policy/arena/price.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "policy/arena/appointed.h"

namespace arena {
namespace {

/// More than any value.
constexpr double most_wanted = 1e300;

bool is_impatient(const Problem& problem, const Task& task) {
    return task.job->patient_until_s > 0 && problem.snapshot().time_s > task.job->patient_until_s;
}

/// Whether no GPU is idle, and few wait.
bool is_stable(const Problem& problem, const Packing& packing, const ArenaRules& rules,
               std::int64_t waiting) {
    if (problem.options().objective != Objective::jct) return false;
    std::int64_t idle = 0, running = 0;
    std::vector<bool> wanted(problem.types());  // GPUs that no job may use are nobody's
    std::vector<bool> seen(problem.kinds());
    for (const Task& task : problem.tasks()) {
        ++(task.runs() ? running : waiting);
        if (seen[task.kind]) continue;
        seen[task.kind] = true;
        for (const Choice& c : problem.choices(task))
            wanted[static_cast<std::size_t>(c.type)] = true;
    }
    for (std::size_t type = 0; type < wanted.size(); ++type)
        if (wanted[type]) idle += packing.free_gpus(static_cast<std::int32_t>(type));
    return idle == 0 &&
           static_cast<double>(waiting) <= rules.few_waiting_share * static_cast<double>(running);
}

/// Whether no appointed time of the job has come since the last decision.
bool is_between_times(const Problem& problem, const Task& task, const ArenaRules& rules) {
    if (!task.runs() && task.job->restarts == 0) return false;
    const double now_s = problem.snapshot().time_s;
    double since_s = now_s - task.job->submit_s, left = task.remaining;
    if (task.runs()) {
        const Choice& current = problem.choice(task.current);
        const double restart_s = task.restart_s(problem.options().restart, current.gpus);
        since_s = now_s - task.job->start_s;
        left += std::max(0.0, since_s - restart_s) / current.iteration_s;
    }
    const double period_s = appointed_period_s(left * task.fastest_s, rules);
    return period_s > 0 && !is_appointed(since_s, period_s, problem.options().window_s);
}

void price_offers(const Problem& problem, const Packing& packing, const Worth& worth,
                  const ArenaRules& rules, bool stable, Prices& prices) {
    for (const Task& task : problem.tasks()) {
        const double weight = prices.weights.emplace_back(worth.weight(task));
        prices.starving.push_back(worth.is_starving(task));
        const bool stays =
            (task.runs() && task.job->behind_ordinary) ||
            (stable && !prices.starving.back() && is_between_times(problem, task, rules));
        prices.moved.push_back(0);
        auto at = static_cast<std::int32_t>(task.first_choice);
        for (const Choice& c : problem.choices(task)) {
            const bool is_current = at++ == task.current;
            const double boot_node_s = packing.boots_for(task, c).node_s;
            const auto value = [&](bool here) {
                return worth.value(task, weight, c, here, boot_node_s);
            };
            prices.values.push_back(is_current ? value(true) : stays ? 0 : value(false));
            if (is_current && !stays) prices.moved.back() = value(false);
        }
    }
}

/// Who stands in a higher step than others starts before them.
void raise_by_steps(const Problem& problem, const Turn& turn, Prices& prices) {
    constexpr double above = 16, per_level = 30;
    if (std::adjacent_find(turn.level.begin(), turn.level.end(), std::not_equal_to<>()) ==
        turn.level.end())
        return;
    const double most = *std::max_element(prices.values.begin(), prices.values.end());
    for (std::size_t i = 0; i < problem.tasks().size(); ++i) {
        const Task& task = problem.tasks()[i];
        if (turn.level[i] == 0) continue;
        const double more = above * most * std::pow(per_level, turn.level[i] - 1.0);
        for (std::size_t c = 0; c < task.choice_count; ++c) {
            double& value = prices.values[task.first_choice + c];
            if (value > 0) value += more;
        }
        if (prices.moved[i] > 0) prices.moved[i] += more;
    }
}

/// What would break the job's own promise is no choice.
void drop_late(const Turn& turn, std::vector<double>& values) {
    for (std::size_t at = 0; at < values.size(); ++at)
        if (turn.keeping.late[at]) values[at] = 0;
}

/// Jobs whose choice is for life take what is foreseen to be best for them, or wait for it: other
/// choices that cost more are worth nothing. Beside elastic jobs, whose GPUs they could be given as
/// well, those that cost hardly more stay, for less.
void look_ahead(const Problem& problem, const Packing& packing, const ArenaRules& rules,
                Prices& prices) {
    if (problem.options().objective != Objective::jct) return;
    const auto& tasks = problem.tasks();
    const bool any_elastic =
        std::any_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.job->elastic; });
    const Foresight foresight(problem, packing, prices.weights, rules, prices.turn);
    prices.prospects = foresight.prospects();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        Prospect& prospect = prices.prospects[i];
        if (prices.starving[i] || is_impatient(problem, tasks[i])) prospect = {};
        if (prospect.best == nullptr) continue;
        std::size_t at = tasks[i].first_choice;
        for (const Choice& c : problem.choices(tasks[i])) {
            const double over = foresight.over(i, c);
            const bool takes = &c == prospect.best && prospect.wait_s <= 0;
            const double factor = takes ? 1
                                  : any_elastic && over <= 1 + rules.estimate_error
                                      ? 1 / std::max(over, 1.0)
                                      : 0;
            if (&c == prospect.best) prices.wanted[at] = most_wanted;
            prices.values[at++] *= factor;
        }
    }
}

/// What could not even stand on its nodes alone is worth nothing.
void drop_impossible(const Problem& problem, Packing alone, std::vector<double>& values) {
    for (const Task& task : problem.tasks()) {
        if (task.runs()) alone.release_current(task);
    }
    // By kind and choice, then by what it would outlast.
    std::vector<std::vector<std::map<std::uint32_t, bool>>> stands(problem.kinds());
    for (const Task& task : problem.tasks()) {
        auto& known = stands[task.kind];
        known.resize(task.choice_count);
        for (std::size_t c = 0; c < known.size(); ++c) {
            const Choice& choice = problem.choices(task)[c];
            const auto [answer, is_new] =
                known[c].try_emplace(alone.outlasted_by(task, choice), false);
            if (is_new) answer->second = alone.could_stand(task, choice);
            const std::size_t at = task.first_choice + c;
            if (!answer->second && static_cast<std::int32_t>(at) != task.current) values[at] = 0;
        }
    }
}

/// Nobody makes room for who stands behind an ordinary job, nor for one of those that was promised
/// nothing.
void set_aside(const Problem& problem, Prices& prices) {
    for (const Task& task : problem.tasks()) {
        const JobState& job = *task.job;
        if (task.runs() || !(job.ordinary || job.behind_ordinary)) continue;
        if (job.ordinary && job.due_s > 0) continue;
        if (prices.aside.empty() && !job.ordinary) prices.aside.resize(prices.values.size());
        for (std::size_t at = task.first_choice; at < task.first_choice + task.choice_count; ++at) {
            if (!job.ordinary) prices.aside[at] = prices.values[at];
            prices.values[at] = 0;
        }
    }
}

}  // namespace

Prices price(const Problem& problem, const Packing& packing, const Worth& worth,
             const ArenaRules& rules, std::int64_t left_out, const Turn* turn) {
    Prices prices;
    prices.turn = turn;
    price_offers(problem, packing, worth, rules, is_stable(problem, packing, rules, left_out),
                 prices);
    if (turn != nullptr) {
        drop_late(*turn, prices.values);
        raise_by_steps(problem, *turn, prices);
    }
    prices.wanted = prices.values;
    look_ahead(problem, packing, rules, prices);
    drop_impossible(problem, packing, prices.values);
    set_aside(problem, prices);
    return prices;
}

}  // namespace arena
