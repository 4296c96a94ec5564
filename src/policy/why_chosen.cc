// SPDX-License-Identifier: GPL-2.0-or-later
// See why_chosen.h.
#include "policy/why_chosen.h"

#include <fmt/format.h>

#include <algorithm>

namespace arena {
namespace {

/// Times that differ by less are as good as equal.
constexpr double alike = 1.05;

/// Without what the action gives to the task.
Packing without(const Task& task, const Choice& choice, const Action& action, Packing left) {
    Placement placement;
    placement.nodes = action.nodes;
    placement.gpus_per_node = action.offer.grid.gpus_per_node;
    placement.split = action.offer.grid.split;
    placement.outlasts = left.outlasted_by(task, choice);
    left.remove(task, placement);
    return left;
}

/// What was in the way of a choice that the task could have had in place of its own.
std::string why_not(const Problem& problem, const Task& task, const Choice& own,
                    const Choice& other, const Action& action, const Leftover& left) {
    if (other.type == own.type && other.gpus == own.gpus) return "so many are not free together";
    const Packing before = without(task, own, action, *left.packing);
    if (before.has_room(task, other)) {
        if (before.boots_for(task, other).node_s > before.boots_of(task, action.nodes).node_s)
            return "its nodes would have to boot";
        return other.gpus > own.gpus ? fmt::format("not worth {} GPUs more", other.gpus - own.gpus)
                                     : "its GPUs are worth more to others";
    }
    const bool others_have_some = std::ranges::any_of(left.given, [&](NodeIndex n) {
        return problem.type_of_node(n) == other.type && before.is_in_set(task.job->node_set, n) &&
               std::ranges::find(action.nodes, n) == action.nodes.end();
    });
    return std::string(others_have_some ? "others make more of the GPUs now"
                                        : why_not_free(problem, task, other, before));
}

std::string why_moved(const Problem& problem, const Task& task, double iteration_s) {
    const Choice& had = problem.choice(task.current);
    const double times = had.iteration_s / iteration_s;
    const std::string shape = short_form(task.job->current->grid);
    if (times >= alike)
        return fmt::format("{:.1f} times as fast as on {}: pays for the restart", times, shape);
    return fmt::format("others make more of {}", shape);
}

}  // namespace

std::string near_words(const Problem& problem, const Choice& choice, const Offer& offer) {
    if (offer.segment > 1)
        return offer.segment == offer.grid.nodes
                   ? " in one block"
                   : fmt::format(", {} nodes of a block at a time", offer.segment);
    const Span widest = problem.widest(choice, offer);
    if (widest == widest_span || widest >= problem.fabric().widest()) return "";
    return widest == Span::leaf ? " in one leaf" : " in one pod";
}

std::string why_chosen(const Problem& problem, const Task& task, const Action& action,
                       const Leftover& left) {
    const double iteration_s = action.offer.estimate.iteration_s;
    if (task.runs()) return why_moved(problem, task, iteration_s);
    const auto choices = problem.choices(task);
    if (choices.size() == 1) return "its only shape";
    const Choice& fastest = *std::ranges::min_element(choices, {}, &Choice::iteration_s);
    const std::int32_t own = problem.find_choice(task, action.offer);
    const double times = iteration_s / fastest.iteration_s;
    if (times < alike || own < 0) return "its fastest shape";
    const Offer& best = *problem.offers(fastest).front();
    return fmt::format("{}{} would be {:.1f} times as fast: {}", short_form(best.grid),
                       near_words(problem, fastest, best), times,
                       why_not(problem, task, problem.choice(own), fastest, action, left));
}

}  // namespace arena
