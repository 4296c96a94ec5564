// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `arena`: see arena_policy.h for the rules, doc/policies.md for what they give.
#include "policy/arena/arena_policy.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "policy/arena/long_queue.h"
#include "policy/arena/place.h"
#include "policy/reservation.h"

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

std::string why_waits(const Problem& problem, const Prices& prices, std::size_t i) {
    const auto& prospects = prices.prospects;
    const bool foreseen =
        !prospects.empty() && prospects[i].best != nullptr && prospects[i].wait_s > 0;
    if (!foreseen) return waiting_words(problem, problem.tasks()[i], prices.wanted);
    const Offer& offer = *problem.offers(*prospects[i].best).front();
    return fmt::format("waits for {}: expected to be free within {}", short_form(offer.grid),
                       within_words(prospects[i].wait_s));
}

/// The actions of the assignment, and what those hear that have nothing.
Decision explain(const Problem& problem, const Prices& prices, Assignment& assignment) {
    Decision decision;
    decision.actions = std::move(assignment.actions());
    for (Action& action : reservations(problem, prices.wanted, assignment.given()))
        decision.actions.push_back(std::move(action));
    for (std::size_t i = 0; i < assignment.given().size(); ++i) {
        const Task& task = problem.tasks()[i];
        if (assignment.given()[i]) continue;
        if (task.runs()) {
            decision.actions.push_back({.kind = ActionKind::preempt,
                                        .job = task.job->id,
                                        .reason = "others make more of its GPUs"});
            continue;
        }
        if (!prices.prospects.empty() && prices.prospects[i].scattered)
            decision.patience.emplace(task.job->id,
                                      problem.snapshot().time_s + prices.prospects[i].wait_s);
        if (problem.options().explain)
            decision.waiting.emplace(task.job->id, why_waits(problem, prices, i));
    }
    if (problem.options().explain) say_what_is_impossible(problem, decision);
    return decision;
}

}  // namespace

Decision decide_arena(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options,
                      const ArenaRules& rules) {
    const std::vector<bool> left_out = left_out_of(snapshot, offers, options, rules);
    const Problem problem(snapshot, offers, options, Scope::all, left_out);
    const Packing packing(problem);
    const Worth worth(problem, offers, rules);
    const Prices prices =
        price(problem, packing, worth, rules, std::count(left_out.begin(), left_out.end(), true));
    Assignment assignment = place(problem, packing, prices, choose(problem, prices.values, rules));
    grow(problem, worth, rules, assignment);
    return explain(problem, prices, assignment);
}

Decision decide_arena(const Snapshot& snapshot, const Offers& offers,
                      const PolicyOptions& options) {
    return decide_arena(snapshot, offers, options, ArenaRules{});
}

}  // namespace arena
