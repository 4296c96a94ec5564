// SPDX-License-Identifier: GPL-2.0-or-later
// Chosen offers on nodes: see assignment.h.
#include "policy/arena/assignment.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace arena {
namespace {

constexpr double whatever_it_costs = -std::numeric_limits<double>::infinity();
constexpr std::string_view was_chosen = "";

}  // namespace

Assignment::Assignment(const AssignmentInput& input, Packing packing)
    : input_(input), packing_(std::move(packing)) {
    const std::size_t tasks = input.problem->tasks().size();
    given_.assign(tasks, false);
    keeps_.assign(tasks, false);
    got_.assign(tasks, 0);
}

/// Those of value that the free GPUs could hold by count, the best first.
Assignment::ByValue Assignment::choices_by_value(std::size_t i) const {
    const auto choices = input_.problem->choices(input_.problem->tasks()[i]);
    ByValue order;
    for (std::size_t c = 0; c < choices.size(); ++c) {
        const double value = input_.values[item(i, c)];
        if (value > 0 && packing_.could_fit(choices[c])) order.emplace_back(-value, c);
    }
    std::sort(order.begin(), order.end());
    return order;
}

double Assignment::value_of(std::size_t i, const Placement& placement) const {
    const Task& task = input_.problem->tasks()[i];
    const std::int32_t at = input_.problem->find_choice(task, *placement.offer, placement.span);
    return at == task.current ? input_.moved[i] : input_.values[static_cast<std::size_t>(at)];
}

void Assignment::keep(std::size_t i) {
    given_[i] = keeps_[i] = true;
    got_[i] = input_.values[static_cast<std::size_t>(input_.problem->tasks()[i].current)];
}

void Assignment::give(std::size_t i, std::string_view why) {
    actions_.push_back(action_for(input_.problem->tasks()[i], placement_, std::string(why)));
    given_[i] = true;
    keeps_[i] = false;
    got_[i] = value_of(i, placement_);
    note_boots(i);
}

void Assignment::note_boots(std::size_t i) {
    std::erase_if(waking_, [&](const Waking& before) { return before.task == i; });
    const Task& task = input_.problem->tasks()[i];
    const double node_s = packing_.boots_of(task, placement_.nodes).node_s;
    if (node_s <= 0) return;
    const std::int32_t choice =
        input_.problem->find_choice(task, *placement_.offer, placement_.span);
    if (choice >= 0) waking_.push_back({i, choice, node_s});
}

/// Those that keep their nodes do; the others' nodes are free. Answers who is to get something
/// else.
std::vector<std::size_t> Assignment::release_changes() {
    const auto& tasks = input_.problem->tasks();
    std::vector<std::size_t> changes;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const auto choice = static_cast<std::size_t>(std::max(chosen_[i], 0));
        if (tasks[i].runs() && chosen_[i] >= 0 &&
            static_cast<std::int32_t>(item(i, choice)) == tasks[i].current) {
            keep(i);
            continue;
        }
        if (tasks[i].runs()) packing_.release_current(tasks[i]);
        if (chosen_[i] >= 0) changes.push_back(i);
    }
    return changes;
}

void Assignment::sort_changes(std::vector<std::size_t>& changes) const {
    const auto key = [&](std::size_t i) {
        const auto choices = input_.problem->choices(input_.problem->tasks()[i]);
        return std::make_tuple(-choices[static_cast<std::size_t>(chosen_[i])].gpus, i);
    };
    std::sort(changes.begin(), changes.end(),
              [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
}

/// The best offer of the task, but none beyond the GPUs chosen for it, that finds nodes.
bool Assignment::place_any(std::size_t i) {
    const Task& task = input_.problem->tasks()[i];
    const auto choices = input_.problem->choices(task);
    for (const auto& [value, c] : choices_by_value(i)) {
        const bool within =
            chosen_[i] < 0 || choices[c].gpus <= choices[static_cast<std::size_t>(chosen_[i])].gpus;
        if (within && packing_.place(task, choices[c], placement_)) return true;
    }
    return false;
}

/// What the task would have if it did not get what was chosen for it.
double Assignment::value_of_fall_back(std::size_t i) {
    const Task& task = input_.problem->tasks()[i];
    if (task.runs() && packing_.can_take_current(task))
        return input_.values[static_cast<std::size_t>(task.current)];
    if (!place_any(i)) return 0;
    packing_.remove(task, placement_);
    return value_of(i, placement_);
}

/// Puts the choice where running jobs stand, if that is worth more than what they lose and the
/// alternative.
bool Assignment::displace_for(std::size_t i, const Choice& choice, double alternative,
                              const std::vector<bool>& may_leave, std::string_view why,
                              Displacement& displacement) {
    const Displacement::Newcomer newcomer{
        .task = i,
        .choice = choice,
        .alternative = alternative,
        .keeps = may_leave,
        // else another one may need just those nodes
        .elsewhere = alternative > whatever_it_costs,
    };
    std::vector<Displacement::Leaver> leavers;
    if (!displacement.displace(newcomer, packing_, placement_, leavers)) return false;
    give(i, why);
    for (Displacement::Leaver& leaver : leavers) {
        given_[leaver.task] = keeps_[leaver.task] = false;
        got_[leaver.task] = 0;
        if (leaver.placement.nodes.empty()) continue;
        placement_ = std::move(leaver.placement);
        give(leaver.task, "makes room for a job that finds no other nodes");
    }
    return true;
}

/// Those that have waited for too long, the first first.
std::vector<std::size_t> Assignment::starving_in_order() const {
    const auto& tasks = input_.problem->tasks();
    std::vector<std::tuple<double, double, std::size_t>> order;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (tasks[i].runs() || !(*input_.starving)[i]) continue;
        if (input_.place != nullptr) {
            order.emplace_back((*input_.place)[i], 0, i);
        } else {
            order.emplace_back(-tasks[i].job->priority, -tasks[i].job->age_s, i);
        }
    }
    if (!std::is_sorted(order.begin(), order.end()))
        std::sort(order.begin(), order.end());  // it is, of one priority
    std::vector<std::size_t> out;
    for (const auto& [priority, age, i] : order) out.push_back(i);
    return out;
}

/// Who waited for too long gets the best that it can have with everybody else out of the way. What
/// finds no room then finds none later either, whichever task of its kind asks: nobody who makes
/// room gets other nodes before the end.
void Assignment::rescue(Displacement& displacement) {
    const auto& tasks = input_.problem->tasks();
    const std::vector<std::size_t> order = starving_in_order();
    if (order.empty()) return;
    std::vector<std::vector<bool>> hopeless(input_.problem->kinds());  // by kind, then choice
    std::vector<std::size_t> hopeful(hopeless.size());  // choices that are not known to find none
    for (const Task& task : tasks) hopeful[task.kind] = task.choice_count;
    // Not those that waited as long and have just been started.
    std::vector<bool> may_leave = keeps_;
    for (std::size_t k = 0; k < tasks.size(); ++k)
        may_leave[k] = keeps_[k] && !(*input_.starving)[k];
    for (const std::size_t i : order) {
        if (hopeful[tasks[i].kind] == 0) continue;
        std::vector<bool>& none = hopeless[tasks[i].kind];
        none.resize(tasks[i].choice_count);
        ByValue by_value;
        for (std::size_t c = 0; c < tasks[i].choice_count; ++c)
            if (!none[c] && (input_.place == nullptr || input_.values[item(i, c)] > 0))
                by_value.emplace_back(-input_.values[item(i, c)], c);
        std::vector<bool> behind = may_leave;
        for (std::size_t k = 0; input_.place != nullptr && k < tasks.size(); ++k)
            behind[k] = behind[k] && (*input_.place)[k] > (*input_.place)[i];
        std::sort(by_value.begin(), by_value.end());
        for (const auto& [value, c] : by_value) {
            const Choice& choice = input_.problem->choices(tasks[i])[c];
            if (packing_.place(tasks[i], choice, placement_)) give(i, "waited for too long");
            if (given_[i] || displace_for(i, choice, whatever_it_costs, behind,
                                          "waited for too long", displacement))
                break;
            none[c] = true;
            --hopeful[tasks[i].kind];
        }
        for (std::size_t k = 0; given_[i] && k < tasks.size(); ++k)
            may_leave[k] = may_leave[k] && keeps_[k];
    }
}

void Assignment::place_or_fall_back(std::size_t i, Displacement& displacement) {
    const Task& task = input_.problem->tasks()[i];
    const Choice& wanted = input_.problem->choices(task)[static_cast<std::size_t>(chosen_[i])];
    if (packing_.place(task, wanted, placement_)) return give(i, was_chosen);
    if (displace_for(i, wanted, value_of_fall_back(i), keeps_, was_chosen, displacement)) return;
    missed_.push_back(i);
    if (task.runs() && packing_.can_take_current(task)) {
        packing_.take_current(task);
        keep(i);
    } else if (place_any(i)) {
        give(i, "the best offer that finds nodes");
    }
}

/// What is left goes to running jobs that lost theirs, then to waiting ones, by value per GPU.
void Assignment::fill() {
    const auto& tasks = input_.problem->tasks();
    std::vector<std::tuple<bool, double, std::size_t>> order;
    std::int64_t idle = 0;
    for (std::size_t t = 0; t < input_.problem->types(); ++t)
        idle += packing_.free_gpus(static_cast<std::int32_t>(t));
    for (std::size_t i = 0; idle > 0 && i < tasks.size(); ++i) {
        if (given_[i]) continue;
        double best = 0;
        for (std::size_t c = 0; c < tasks[i].choice_count; ++c) {
            const Choice& choice = input_.problem->choices(tasks[i])[c];
            if (packing_.could_fit(choice))
                best = std::max(best, input_.values[item(i, c)] / choice.gpus);
        }
        if (best > 0) order.emplace_back(!tasks[i].runs(), -best, i);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [waits, value, i] : order) {
        if (tasks[i].runs() && packing_.can_take_current(tasks[i])) {
            packing_.take_current(tasks[i]);
            keep(i);
        } else if (place_any(i)) {
            give(i, "uses what is idle");
        }
    }
}

void Assignment::give_idle(std::span<const double> values) {
    input_.values = values;
    chosen_.assign(given_.size(), -1);
    fill();
}

void Assignment::place_all(const std::vector<std::int32_t>& chosen, Displacement& displacement) {
    chosen_ = chosen;
    std::vector<std::size_t> changes = release_changes();
    rescue(displacement);
    sort_changes(changes);
    for (const std::size_t i : changes) {
        if (!given_[i]) place_or_fall_back(i, displacement);
    }
    fill();
    value_ = std::accumulate(got_.begin(), got_.end(), 0.0);
}

void Assignment::assign(std::vector<Outcome> outcomes) {
    const auto& tasks = input_.problem->tasks();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (outcomes[i].stays) {
            keep(i);
        } else if (tasks[i].runs()) {
            packing_.release_current(tasks[i]);
        }
    }
    place_closer(outcomes);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (outcomes[i].placement.nodes.empty()) continue;
        placement_ = std::move(outcomes[i].placement);
        packing_.put(tasks[i], placement_);
        give(i, was_chosen);
    }
    value_ = std::accumulate(got_.begin(), got_.end(), 0.0);
}

/// The search knows what fits and not what lies together: the same layouts once more, those of many
/// nodes first, where all find nodes so.
void Assignment::place_closer(std::vector<Outcome>& outcomes) {
    if (packing_.fabric().is_flat()) return;
    const Problem& problem = *input_.problem;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < outcomes.size(); ++i)
        if (!outcomes[i].placement.nodes.empty()) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return outcomes[a].placement.nodes.size() > outcomes[b].placement.nodes.size();
    });
    Packing closer = packing_;
    std::vector<Placement> placements;
    for (const std::size_t i : order) {
        const Placement& found = outcomes[i].placement;
        const Task& task = problem.tasks()[i];
        const std::int32_t choice = problem.find_choice(task, *found.offer, found.span);
        if (choice < 0 || !closer.place_as(task, problem.choice(choice), *found.offer,
                                           found.gpus_per_node, placements.emplace_back()))
            return;
    }
    for (std::size_t k = 0; k < order.size(); ++k)
        outcomes[order[k]].placement = std::move(placements[k]);
}

bool Assignment::move(std::size_t i, const Choice& choice,
                      const std::function<bool(double boot_node_s)>& pays, std::string_view why) {
    const Task& task = input_.problem->tasks()[i];
    packing_.release_current(task);
    bool found = packing_.place(task, choice, placement_);
    if (found && !pays(packing_.boots_of(task, placement_.nodes).node_s)) {
        packing_.remove(task, placement_);
        found = false;
    }
    if (!found) {
        packing_.take_current(task);
        return false;
    }
    give(i, why);
    return true;
}

}  // namespace arena
