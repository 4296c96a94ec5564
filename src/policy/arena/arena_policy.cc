// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `arena`: see arena_policy.h for the rules, doc/policies.md for what they give.
#include "policy/arena/arena_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "policy/arena/long_queue.h"
#include "policy/arena/place.h"
#include "policy/why_chosen.h"

namespace arena {
namespace {

/// Waiting jobs that are left out of a round. Where all of them are to be told why they wait, or
/// have a shape reserved, none is.
std::vector<bool> left_out_of(const Snapshot& snapshot, const Offers& offers,
                              const PolicyOptions& options, const ArenaRules& rules) {
    if (options.explain || options.reserve_depth > 0 || !options.shares.empty() ||
        options.objective != Objective::jct)
        return {};
    return out_of_reach(snapshot, offers,
                        [&](const JobState& job) { return has_starved(job, 0, false, rules); });
}

/// In steps: a text that changes with every round would be a change of the job, which makes the
/// next round.
std::string within_words(double seconds) {
    constexpr std::pair<double, const char*> steps[] = {
        {60, "a minute"}, {300, "5 min"}, {900, "15 min"}, {1800, "30 min"}, {3600, "an hour"},
        {7200, "2 h"},    {14400, "4 h"}, {28800, "8 h"},  {86400, "a day"}, {259200, "3 days"}};
    for (const auto& [limit_s, words] : steps)
        if (seconds <= limit_s) return words;
    return "weeks";
}

bool is_same_count(const Choice& a, const Choice& b) {
    return a.type == b.type && a.gpus == b.gpus;
}

/// What the task could have now in place of the choice that it waits for: the same count in another
/// layout, else the fastest of all others.
std::pair<const Choice*, const Offer*> shape_now(const Problem& problem, const Task& task,
                                                 const Choice& waited_for, const Packing& packing) {
    std::pair<const Choice*, const Offer*> fastest;
    for (const Choice& c : problem.choices(task)) {
        const bool is_same = is_same_count(c, waited_for);
        const bool is_slower = fastest.first && c.iteration_s >= fastest.first->iteration_s;
        if (&c == &waited_for || !packing.could_fit(c) || (is_slower && !is_same)) continue;
        const Offer* now = packing.layout_with_room(task, c);
        if (now != nullptr && is_same) return {&c, now};
        if (now != nullptr) fastest = {&c, now};
    }
    return fastest;
}

/// "" where nothing is free.
std::string instead_of_now(const Problem& problem, const Task& task, const Prospect& prospect,
                           const Packing& packing) {
    const Choice& best = *prospect.best;
    const auto [choice, now] = shape_now(problem, task, best, packing);
    if (now == nullptr) return {};
    if (now == problem.offers(best).front())
        return ", and ends sooner then than on nodes that are farther apart now";
    if (now->grid.is_uneven() && is_same_count(*choice, best))
        return ", and ends sooner then than with the pieces that are free now";
    const bool ends_sooner =
        is_same_count(*choice, best) ||
        prospect.wait_s + problem.run_s(task, best) < problem.run_s(task, *choice);
    if (!ends_sooner) return {};
    return fmt::format(", and ends sooner then than on {}{} now", short_form(now->grid),
                       near_words(problem, *choice, *now));
}

std::string why_waits(const Problem& problem, const Prices& prices, const Leftover& left,
                      std::size_t i) {
    const auto& prospects = prices.prospects;
    const bool foreseen =
        !prospects.empty() && prospects[i].best != nullptr && prospects[i].wait_s > 0;
    const Task& task = problem.tasks()[i];
    if (!foreseen) return waiting_words(problem, task, prices.wanted, left);
    const Choice& best = *prospects[i].best;
    const Offer& wanted = *problem.offers(best).front();
    return fmt::format("waits for {}{}: expected to be free within {}{}", short_form(wanted.grid),
                       near_words(problem, best, wanted), within_words(prospects[i].wait_s),
                       instead_of_now(problem, task, prospects[i], *left.packing));
}

void say_why_chosen(const Problem& problem, const Leftover& left, std::vector<Action>& actions) {
    for (Action& action : actions) {
        if (!action.reason.empty()) continue;
        const auto task =
            std::ranges::find(problem.tasks(), action.job, [](const Task& t) { return t.job->id; });
        action.reason = why_chosen(problem, *task, action, left);
    }
}

/// An ordinary job that nodes were found for, and which.
struct ForSlurm {
    JobId job;
    std::vector<NodeIndex> nodes;  ///< ascending
};

/// Takes those out of the actions: Slurm starts them, on the nodes that nobody else is given.
std::vector<ForSlurm> leave_to_slurm(const Problem& problem, std::vector<Action>& actions) {
    std::vector<JobId> ordinary;
    for (const Task& task : problem.tasks())
        if (task.job->ordinary) ordinary.push_back(task.job->id);
    std::ranges::sort(ordinary);
    std::vector<ForSlurm> left;
    std::erase_if(actions, [&](Action& action) {
        if (!std::ranges::binary_search(ordinary, action.job)) return false;
        left.push_back({action.job, std::move(action.nodes)});
        return true;
    });
    return left;
}

std::vector<NodeIndex> nodes_of(const std::vector<ForSlurm>& jobs) {
    std::vector<NodeIndex> nodes;
    for (const ForSlurm& one : jobs) nodes.insert(nodes.end(), one.nodes.begin(), one.nodes.end());
    std::ranges::sort(nodes);
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
}

/// Of a job that has to leave its nodes, ascending, and has no others now.
std::string why_it_leaves(const JobState& job, const std::vector<ForSlurm>& ordinary) {
    for (const ForSlurm& one : ordinary)
        if (std::ranges::any_of(
                job.nodes, [&](NodeIndex n) { return std::ranges::binary_search(one.nodes, n); }))
            return fmt::format("makes room for ordinary job {}, which Slurm starts", one.job);
    return "others make more of its GPUs";
}

/// The actions of the assignment, and what those hear that have nothing.
Decision explain(const Problem& problem, const Prices& prices, Assignment& assignment) {
    Decision decision;
    decision.actions = std::move(assignment.actions());
    const std::vector<ForSlurm> ordinary = leave_to_slurm(problem, decision.actions);
    const std::vector<NodeIndex> slurms = nodes_of(ordinary);
    if (problem.options().explain || problem.options().reserve_depth > 0)
        keep_from_slurm(problem, assignment.packing(), slurms, decision.actions);
    Leftover left(problem, assignment.packing(), decision.actions, assignment.keeps());
    left.slurms = slurms;
    if (problem.options().explain) say_why_chosen(problem, left, decision.actions);
    for (Action& action : reservations(problem, prices.wanted, left, assignment.given())) {
        const auto task = std::find_if(problem.tasks().begin(), problem.tasks().end(),
                                       [&](const Task& t) { return t.job->id == action.job; });
        action.reason = why_waits(problem, prices, left,
                                  static_cast<std::size_t>(task - problem.tasks().begin()));
        decision.actions.push_back(std::move(action));
    }
    for (std::size_t i = 0; i < assignment.given().size(); ++i) {
        const Task& task = problem.tasks()[i];
        if (assignment.given()[i] || task.job->ordinary) continue;
        if (task.runs()) {
            decision.actions.push_back({.kind = ActionKind::preempt,
                                        .job = task.job->id,
                                        .reason = why_it_leaves(*task.job, ordinary)});
            continue;
        }
        if (!prices.prospects.empty() && prices.prospects[i].scattered)
            decision.patience.emplace(task.job->id,
                                      problem.snapshot().time_s + prices.prospects[i].wait_s);
        if (problem.options().explain)
            decision.waiting.emplace(task.job->id, why_waits(problem, prices, left, i));
    }
    if (problem.options().explain) say_what_is_impossible(problem, decision);
    return decision;
}

}  // namespace

Decision decide_arena(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options,
                      const ArenaRules& rules) {
    const std::vector<bool> left_out = left_out_of(snapshot, offers, options, rules);
    const Problem problem(snapshot, offers, options, Scope::layouts, left_out);
    const std::optional<Turn> turn = turn_of(problem);
    const Turn* in_turn = turn ? &*turn : nullptr;
    Packing packing(problem);
    if (turn) packing.keep(&turn->keeping.holds);
    const Worth worth(problem, offers, rules, in_turn);
    const Prices prices = price(problem, packing, worth, rules,
                                std::count(left_out.begin(), left_out.end(), true), in_turn);
    Assignment assignment =
        place(problem, packing, prices, worth, choose(problem, prices.values, rules));
    grow(problem, worth, rules, assignment);
    if (!prices.aside.empty()) assignment.give_idle(prices.aside);
    return explain(problem, prices, assignment);
}

Decision decide_arena(const Snapshot& snapshot, const Offers& offers,
                      const PolicyOptions& options) {
    return decide_arena(snapshot, offers, options, ArenaRules{});
}

}  // namespace arena
