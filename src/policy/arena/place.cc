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

using Move = std::tuple<double, std::size_t, std::size_t>;  ///< (-gain per GPU, task, choice)

/// What a running task that keeps its GPUs would gain on idle ones, worth a restart by itself.
void find_growth(const Problem& problem, const Worth& worth, const ArenaRules& rules,
                 const Packing& packing, std::size_t i, std::vector<Move>& moves) {
    const Task& task = problem.tasks()[i];
    const Choice& current = problem.choice(task.current);
    const double now_s = worth.time_s(task, current, true);
    for (std::size_t c = 0; c < task.choice_count; ++c) {
        const Choice& choice = problem.choices(task)[c];
        const std::int64_t own = choice.type == current.type ? current.gpus : 0;
        if (choice.gpus > packing.free_gpus(choice.type) + own) continue;
        const double then_s = worth.time_s(task, choice, false);
        const double charge = worth.stay_charge(task, choice, rules.growth_restarts);
        if (now_s > rules.grow_factor * charge * then_s)
            moves.emplace_back((1 / now_s - 1 / then_s) / choice.gpus, i, c);
    }
}

}  // namespace

/// What finds no nodes is not chosen again in the next attempt, as far as the budget goes.
Assignment place(const Problem& problem, const Packing& packing, const Prices& prices,
                 Selection selection) {
    const AssignmentInput input{&problem, prices.values, prices.moved, &prices.starving,
                                prices.turn == nullptr ? nullptr : &prices.turn->place};
    Displacement displacement(problem, prices.values, prices.moved);
    Assignment best(input, packing);
    best.place_all(selection.chosen, displacement);
    if (search_all(problem, packing, input, selection, best)) return best;
    std::vector<std::size_t> missed = best.missed();
    std::vector<double> left = prices.values;
    while (!missed.empty() && selection.steps > 0 && !has_shares(problem)) {
        for (const std::size_t i : missed) left[item(problem, i, selection.chosen[i])] = 0;
        choose_anew(problem, left, selection);
        Assignment other(input, packing);
        other.place_all(selection.chosen, displacement);
        missed = other.missed();
        if (other.value() > best.value()) best = std::move(other);
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
        if (assignment.keeps()[i])
            assignment.move(i, problem.choices(tasks[i])[c], "idle GPUs finish it sooner");
    }
}

}  // namespace arena
