// SPDX-License-Identifier: GPL-2.0-or-later
// See seat.h.
#include "policy/arena/seat.h"

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
bool search_all(const Problem& problem, const Packing& packing, const Seats& seats,
                Selection& selection, Seating& best) {
    if (has_shares(problem)) return false;
    double by_count = 0;
    for (std::size_t i = 0; i < selection.chosen.size(); ++i) {
        const std::int32_t choice = selection.chosen[i];
        if (choice >= 0) by_count += seats.values[item(problem, i, choice)];
    }
    if (selection.exact && best.value() >= (1 - rounding) * by_count) return true;
    const bool starves =
        std::find(seats.starving->begin(), seats.starving->end(), true) != seats.starving->end();
    if (starves || !Exhaustive::is_small(problem)) return false;
    std::int64_t steps = selection.steps / 2;
    selection.steps -= steps;
    Exhaustive all(problem, packing, seats.values, seats.moved, selection.gpu_prices);
    std::vector<Seat> found = all.search(best.value(), steps);
    if (!found.empty()) {
        Seating other(seats, packing);
        other.seat_as(std::move(found));
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
Seating seat(const Problem& problem, const Packing& packing, const Prices& prices,
             Selection selection) {
    const Seats seats{&problem, prices.values, prices.moved, &prices.starving};
    RoomMaker room(problem, prices.values, prices.moved);
    Seating best(seats, packing);
    best.seat(selection.chosen, room);
    if (search_all(problem, packing, seats, selection, best)) return best;
    std::vector<std::size_t> missed = best.missed();
    std::vector<double> left = prices.values;
    while (!missed.empty() && selection.steps > 0 && !has_shares(problem)) {
        for (const std::size_t i : missed) left[item(problem, i, selection.chosen[i])] = 0;
        choose_anew(problem, left, selection);
        Seating other(seats, packing);
        other.seat(selection.chosen, room);
        missed = other.missed();
        if (other.value() > best.value()) best = std::move(other);
    }
    return best;
}

void grow(const Problem& problem, const Worth& worth, const ArenaRules& rules, Seating& seating) {
    const auto& tasks = problem.tasks();
    std::vector<Move> moves;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (seating.keeps()[i]) find_growth(problem, worth, rules, seating.packing(), i, moves);
    }
    std::sort(moves.begin(), moves.end());
    for (const auto& [gain, i, c] : moves) {
        if (seating.keeps()[i])
            seating.move(i, problem.choices(tasks[i])[c], "idle GPUs finish it sooner");
    }
}

}  // namespace arena
