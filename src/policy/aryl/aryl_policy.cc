// SPDX-License-Identifier: GPL-2.0-or-later
// See aryl_policy.h.
#include "policy/aryl/aryl_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <limits>
#include <tuple>

#include "policy/aryl/demands.h"
#include "policy/packing.h"
#include "policy/reservation.h"

namespace arena {
namespace {

constexpr std::int64_t all_own = std::numeric_limits<std::int64_t>::max() / 2;

/// One round: by count, then on nodes.
class Round {
  public:
    Round(const Problem& problem, const ArylRules& rules);
    Decision decide();

  private:
    using Order = std::vector<std::uint32_t>;
    [[nodiscard]] const Task& task(std::size_t i) const { return problem_.tasks()[i]; }
    [[nodiscard]] double run_s(std::size_t i) const {
        return Problem::time_left_s(task(i), *base_[i]);
    }
    [[nodiscard]] Order queue() const;
    void admit_waiting(const Order&);
    [[nodiscard]] const Choice* admissible(std::size_t i, std::int64_t& blocked_type) const;
    void share_out_type(std::int32_t type);
    [[nodiscard]] Order by_gpus(bool running) const;
    void change_running();
    void deal_out_own_nodes();
    void start_admitted();
    void start_others(const Order&);
    bool put(std::size_t i, const Choice&, std::string_view why);
    bool put_or_less(std::size_t i, std::string_view why);
    [[nodiscard]] Leftover leftover() const;
    void say_who_waits();

    const Problem& problem_;
    const ArylRules& rules_;
    Packing packing_;
    std::vector<bool> lent_;     ///< by node; empty: none is
    std::vector<bool> to_lent_;  ///< by task: its base, too, goes to lent nodes first
    std::vector<const Choice*> base_;
    std::vector<const Choice*> chosen_;  ///< by task; nullptr: waits
    std::vector<bool> given_;
    std::vector<bool> closed_;        ///< by type: an aged job waits for it
    std::vector<std::int64_t> free_;  ///< by type, beside all bases
    Placement placement_;
    Decision decision_;
};

Round::Round(const Problem& problem, const ArylRules& rules)
    : problem_(problem),
      rules_(rules),
      packing_(problem),
      to_lent_(problem.tasks().size(), false),
      chosen_(problem.tasks().size(), nullptr),
      given_(problem.tasks().size(), false),
      closed_(problem.types(), false) {
    const auto& nodes = problem.snapshot().nodes;
    if (std::any_of(nodes.begin(), nodes.end(), [](const NodeState& n) { return !n.lent.empty(); }))
        for (const NodeState& node : nodes) lent_.push_back(!node.lent.empty());
    for (std::size_t t = 0; t < problem.types(); ++t) free_.push_back(problem.capacity(t));
    base_.reserve(problem.tasks().size());
    for (std::size_t i = 0; i < problem.tasks().size(); ++i) {
        base_.push_back(&base_of(problem, task(i), rules));
        if (!task(i).runs()) continue;
        chosen_[i] = base_[i];
        free_[static_cast<std::size_t>(base_[i]->type)] -= base_[i]->gpus;
    }
}

/// Waiting tasks: those that waited too long by their age, then the shortest first.
Round::Order Round::queue() const {
    std::vector<BaseDemand> demands;
    Order tasks, queue;
    for (std::uint32_t i = 0; i < chosen_.size(); ++i) {
        if (task(i).runs()) continue;
        const bool aged = has_aged(task(i), run_s(i), rules_);
        demands.push_back({.job = task(i).job->id,
                           .run_s = aged ? -task(i).job->age_s : run_s(i),
                           .gpus = base_[i]->gpus});
        tasks.push_back(i);
    }
    for (const std::uint32_t at : shortest_first(demands)) queue.push_back(tasks[at]);
    return queue;
}

/// The base, or what stands for it on another type, where so many GPUs are free by count.
const Choice* Round::admissible(std::size_t i, std::int64_t& blocked_type) const {
    const auto fits = [&](const Choice& c) {
        const auto type = static_cast<std::size_t>(c.type);
        return !closed_[type] && c.gpus <= free_[type];
    };
    blocked_type = base_[i]->type;
    if (fits(*base_[i])) return base_[i];
    for (std::int32_t type = 0; type < static_cast<std::int32_t>(problem_.types()); ++type) {
        if (type == base_[i]->type || free_[static_cast<std::size_t>(type)] <= 0) continue;
        const Choice* other = base_on(problem_, task(i), *base_[i], type, rules_);
        if (other != nullptr && fits(*other)) return other;
    }
    return nullptr;
}

void Round::admit_waiting(const Order& queue) {
    for (const std::uint32_t i : queue) {
        if (std::all_of(free_.begin(), free_.end(), [](std::int64_t n) { return n <= 0; })) return;
        std::int64_t blocked = 0;
        if (const Choice* c = admissible(i, blocked)) {
            base_[i] = chosen_[i] = c;
            free_[static_cast<std::size_t>(c->type)] -= c->gpus;
        } else if (has_aged(task(i), run_s(i), rules_)) {
            closed_[static_cast<std::size_t>(blocked)] = true;
        }
    }
}

/// Phase 2 for the jobs whose base is of the type. While an aged job waits for it nobody grows.
void Round::share_out_type(std::int32_t type) {
    const bool may_grow = !closed_[static_cast<std::size_t>(type)];
    std::vector<Growth> jobs;
    std::vector<std::pair<std::uint32_t, std::int32_t>> owners;  // task, its first step
    for (std::uint32_t i = 0; i < chosen_.size(); ++i) {
        if (chosen_[i] == nullptr || base_[i]->type != type || !task(i).job->elastic) continue;
        TaskGrowth own = growth_of(problem_, task(i), *base_[i], rules_, may_grow);
        if (own.growth.steps.empty()) continue;
        jobs.push_back(std::move(own.growth));
        owners.emplace_back(i, own.first);
    }
    if (jobs.empty()) return;
    const Shares shares = share_out(jobs, free_[static_cast<std::size_t>(type)]);
    for (std::size_t k = 0; k < owners.size(); ++k) {
        const auto [i, first] = owners[k];
        if (shares.chosen[k] < 0) continue;
        const auto at = static_cast<std::size_t>(first + shares.chosen[k]);
        chosen_[i] = &problem_.choices(task(i))[at];
    }
}

/// Best fit decreasing: tasks that have a choice and are to be put, the most GPUs first.
Round::Order Round::by_gpus(bool running) const {
    Order order;
    for (std::uint32_t i = 0; i < chosen_.size(); ++i)
        if (chosen_[i] != nullptr && !given_[i] && task(i).runs() == running) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::tuple(-chosen_[a]->gpus, a) < std::tuple(-chosen_[b]->gpus, b);
    });
    return order;
}

/// Base GPUs on own nodes, the others on lent ones.
bool Round::put(std::size_t i, const Choice& choice, std::string_view why) {
    const bool grows = choice.gpus > base_[i]->gpus;
    const std::int64_t own = to_lent_[i] ? 0 : grows ? base_[i]->gpus : all_own;
    if (!lent_.empty()) packing_.prefer(&lent_, own);
    if (!packing_.place(task(i), choice, placement_)) return false;
    decision_.actions.push_back(action_for(task(i), placement_, std::string(why)));
    given_[i] = true;
    return true;
}

/// The choice, or the next smaller ones of its type; a waiting task not below its base.
bool Round::put_or_less(std::size_t i, std::string_view why) {
    const std::int32_t least = task(i).runs() ? 1 : base_[i]->gpus;
    const auto choices = problem_.choices(task(i));
    for (const Choice* c = chosen_[i];; --c) {
        if (c->type != chosen_[i]->type || c->gpus < least) return false;
        if (put(i, *c, why)) return true;
        if (c == choices.data()) return false;
    }
}

void Round::change_running() {
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
        if (!task(i).runs()) continue;
        given_[i] = chosen_[i] == &problem_.choice(task(i).current);
        if (!given_[i]) packing_.release_current(task(i));
    }
    for (const std::uint32_t i : by_gpus(true)) {
        const bool grows = chosen_[i]->gpus > problem_.choice(task(i).current).gpus;
        if (put(i, *chosen_[i], grows ? "more GPUs save more than a restart" : "makes room"))
            continue;
        given_[i] = true;
        if (packing_.can_take_current(task(i)))
            packing_.take_current(task(i));
        else if (!put_or_less(i, "makes room"))
            decision_.actions.push_back({.kind = ActionKind::preempt,
                                         .job = task(i).job->id,
                                         .reason = "no nodes are left for it"});
    }
}

/// Whoever ends soon can do with a node that goes back: where what is free of own nodes does not
/// hold all bases that start, those that run longest have it.
void Round::deal_out_own_nodes() {
    if (lent_.empty()) return;
    std::vector<std::int64_t> own(problem_.types(), 0);
    for (NodeIndex n = 0; n < lent_.size(); ++n)
        if (const std::int32_t type = problem_.type_of_node(n); !lent_[n] && type >= 0)
            own[static_cast<std::size_t>(type)] += problem_.snapshot().nodes[n].free_gpus;
    Order order = by_gpus(false);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return Problem::time_left_s(task(a), *chosen_[a]) >
               Problem::time_left_s(task(b), *chosen_[b]);
    });
    for (const std::uint32_t i : order) {
        std::int64_t& free = own[static_cast<std::size_t>(base_[i]->type)];
        to_lent_[i] = base_[i]->gpus > free;
        if (!to_lent_[i]) free -= base_[i]->gpus;
    }
}

void Round::start_admitted() {
    deal_out_own_nodes();
    for (const std::uint32_t i : by_gpus(false))
        if (!put_or_less(i, "shortest first")) chosen_[i] = nullptr;
}

/// What found no nodes leaves its GPUs to those behind it.
void Round::start_others(const Order& queue) {
    std::vector<std::int32_t> failed(problem_.kinds(), INT32_MAX);  // as few GPUs of a kind
    for (const std::uint32_t i : queue) {
        const auto type = static_cast<std::size_t>(base_[i]->type);
        std::int32_t& least = failed[task(i).kind];
        if (given_[i] || closed_[type] || !packing_.could_fit(*base_[i]) || base_[i]->gpus >= least)
            continue;
        if (!put(i, *base_[i], "fits what is left")) least = base_[i]->gpus;
    }
}

Leftover Round::leftover() const {
    std::vector<bool> keeps;
    for (std::size_t i = 0; i < chosen_.size(); ++i)
        keeps.push_back(task(i).runs() && chosen_[i] != nullptr);
    return Leftover(problem_, packing_, decision_.actions, keeps);
}

void Round::say_who_waits() {
    std::vector<double> wanted;
    for (std::size_t i = 0; i < chosen_.size(); ++i)
        for (const Choice& c : problem_.choices(task(i))) wanted.push_back(&c == base_[i] ? 1 : 0);
    const Leftover left = leftover();
    for (Action& action : reservations(problem_, wanted, left, given_))
        decision_.actions.push_back(std::move(action));
    if (!problem_.options().explain) return;
    for (std::size_t i = 0; i < chosen_.size(); ++i)
        if (!given_[i])
            decision_.waiting.emplace(task(i).job->id,
                                      waiting_words(problem_, task(i), wanted, left));
    say_what_is_impossible(problem_, decision_);
}

Decision Round::decide() {
    const Order waiting = queue();
    admit_waiting(waiting);
    for (std::int32_t type = 0; type < static_cast<std::int32_t>(problem_.types()); ++type)
        share_out_type(type);
    change_running();
    start_admitted();
    start_others(waiting);
    if (problem_.options().explain || problem_.options().reserve_depth > 0) say_who_waits();
    return std::move(decision_);
}

}  // namespace

Decision decide_aryl(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options,
                     const ArylRules& rules) {
    const Problem problem(snapshot, offers, options, Scope::all);
    return Round(problem, rules).decide();
}

Decision decide_aryl(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options) {
    return decide_aryl(snapshot, offers, options, ArylRules{});
}

}  // namespace arena
