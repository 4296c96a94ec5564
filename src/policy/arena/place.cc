// SPDX-License-Identifier: GPL-2.0-or-later
// See place.h.
#include "policy/arena/place.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace arena {
namespace {

constexpr double rounding = 1e-9;

std::size_t item(const Problem& problem, std::size_t i, std::int32_t choice) {
    return problem.tasks()[i].first_choice + static_cast<std::size_t>(choice);
}

/// Few jobs: tries all that could be. True when nothing can be better than `best` then.
bool search_all(const Problem& problem, const Packing& packing, const AssignmentInput& input,
                Selection& selection, Assignment& best) {
    // What it knows of nodes is what is free, not what is held.
    if (has_shares(problem) || packing.keeps_any()) return false;
    double by_count = 0;
    for (std::size_t i = 0; i < selection.chosen.size(); ++i) {
        const std::int32_t choice = selection.chosen[i];
        if (choice >= 0) by_count += input.values[item(problem, i, choice)];
    }
    if (selection.exact && best.value() >= (1 - rounding) * by_count) return true;
    const bool starves =
        std::find(input.starving->begin(), input.starving->end(), true) != input.starving->end();
    if (starves || !Exhaustive::is_small(problem)) return false;
    std::int64_t steps = selection.steps / 2;
    selection.steps -= steps;
    Exhaustive all(problem, packing, input.values, input.moved, selection.gpu_prices);
    std::vector<Outcome> found = all.search(best.value(), steps);
    if (!found.empty()) {
        Assignment other(input, packing);
        other.assign(std::move(found));
        best = std::move(other);
    }
    return steps > 0;
}

/// Of those whose nodes boot for longer than was reckoned by count: their choices in `left` become
/// worth what they are with these boots. Answers what all of them are worth less.
double lower_by_boots(const Problem& problem, const Packing& packing, const Prices& prices,
                      const Worth& worth, const Assignment& assignment, std::vector<double>& left) {
    double less = 0;
    for (const Assignment::Waking& waking : assignment.waking()) {
        const Task& task = problem.tasks()[waking.task];
        const Choice& choice = problem.choice(waking.choice);
        const double reckoned_s = packing.boots_for(task, choice).node_s;
        if (waking.node_s <= reckoned_s) continue;
        const auto value = [&](double node_s) {
            return worth.value(task, prices.weights[waking.task], choice, false, node_s);
        };
        const auto at = static_cast<std::size_t>(waking.choice);
        const double lower = prices.values[at] * value(waking.node_s) / value(reckoned_s);
        less += prices.values[at] - lower;
        left[at] = std::min(left[at], lower);
    }
    return less;
}

using Move = std::tuple<double, std::size_t, std::size_t>;  ///< (-gain per GPU, task, choice)

/// Whether idle GPUs with which the task ends in `then_s` are worth the restart, and the boots.
bool pays(const Worth& worth, const ArenaRules& rules, const Task& task, const Choice& choice,
          double now_s, double then_s, double boot_node_s) {
    return now_s > rules.grow_factor *
                       worth.stay_charge(task, choice, rules.growth_restarts, boot_node_s) * then_s;
}

/// What a running task that keeps its GPUs would gain on idle ones, worth a restart by itself.
void find_growth(const Problem& problem, const Worth& worth, const ArenaRules& rules,
                 const Packing& packing, std::size_t i, std::vector<Move>& moves) {
    const Task& task = problem.tasks()[i];
    const Choice& current = problem.choice(task.current);
    const double now_s = worth.time_s(task, current, true, 0);
    for (std::size_t c = 0; c < task.choice_count; ++c) {
        const Choice& choice = problem.choices(task)[c];
        const std::int64_t own = choice.type == current.type ? current.gpus : 0;
        if (choice.gpus > packing.free_gpus(choice.type) + own) continue;
        const double boot_node_s = packing.boots_for(task, choice).node_s;
        const double then_s = worth.time_s(task, choice, false, boot_node_s);
        if (pays(worth, rules, task, choice, now_s, then_s, boot_node_s))
            moves.emplace_back((1 / now_s - 1 / then_s) / choice.gpus, i, c);
    }
}

}  // namespace

/// What finds no nodes is not chosen again in the next attempt, and what boots more of them than
/// was reckoned is worth less in it, as far as the budget goes.
Assignment place(const Problem& problem, const Packing& packing, const Prices& prices,
                 const Worth& worth, Selection selection) {
    const AssignmentInput input{&problem, prices.values, prices.moved, &prices.starving,
                                prices.turn == nullptr ? nullptr : &prices.turn->place};
    Displacement displacement(problem, prices.values, prices.moved);
    Assignment best(input, packing);
    best.place_all(selection.chosen, displacement);
    std::vector<double> left;
    const auto lower = [&](const Assignment& a) {
        if (a.waking().empty()) return 0.0;
        if (left.empty()) left = prices.values;
        return lower_by_boots(problem, packing, prices, worth, a, left);
    };
    double less = lower(best);
    if (less <= 0 && search_all(problem, packing, input, selection, best)) return best;
    double most = best.value() - less;
    std::vector<std::size_t> missed = best.missed();
    if (left.empty()) left = prices.values;
    while ((!missed.empty() || less > 0) && selection.steps > 0 && !has_shares(problem)) {
        for (const std::size_t i : missed) left[item(problem, i, selection.chosen[i])] = 0;
        const auto before = selection.chosen;
        choose_anew(problem, left, selection);
        if (missed.empty() && selection.chosen == before) break;  // and so it would stay
        Assignment other(input, packing);
        other.place_all(selection.chosen, displacement);
        missed = other.missed();
        less = lower(other);
        if (other.value() - less <= most) continue;
        most = other.value() - less;
        best = std::move(other);
    }
    return best;
}

void grow(const Problem& problem, const Worth& worth, const ArenaRules& rules,
          Assignment& assignment) {
    const auto& tasks = problem.tasks();
    std::vector<Move> moves;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (assignment.keeps()[i])
            find_growth(problem, worth, rules, assignment.packing(), i, moves);
    }
    std::sort(moves.begin(), moves.end());
    for (const auto& [gain, i, c] : moves) {
        if (!assignment.keeps()[i]) continue;
        const Task& task = tasks[i];
        const Choice& choice = problem.choices(task)[c];
        const double now_s = worth.time_s(task, problem.choice(task.current), true, 0);
        const auto still_pays = [&](double boot_node_s) {
            return pays(worth, rules, task, choice, now_s,
                        worth.time_s(task, choice, false, boot_node_s), boot_node_s);
        };
        assignment.move(i, choice, still_pays, "idle GPUs finish it sooner");
    }
}

}  // namespace arena
