// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `arena`: see arena_policy.h for the rules, doc/policies.md for how the constants were found.
#include "policy/arena_policy.h"

#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "policy/knapsack.h"
#include "policy/packing.h"
#include "policy/reservation.h"

namespace arena {
namespace {

/// How many restarts a change of a running job is charged with: the next ones that it may cause.
constexpr double charged_restarts = 20;
/// A running job's current offer counts this much more than another one of its GPU type ...
constexpr double keep_bonus = 1.3;
/// ... and the latter this much more than one of another type.
constexpr double type_bonus = 1.4;
/// Every offer of a running job counts this much more than those of waiting jobs, and more still, up to
/// twice, when it ends within about this time: who is nearly done is not worth two restarts.
constexpr double momentum = 1.7, nearly_done_s = 3000;
/// Idle GPUs are taken by long running jobs that they finish by this factor sooner.
constexpr double grow_factor = 1.1, grow_left_s = 29420;
/// Appointed times: while the cluster is full (no more than this share idle) and few wait (no more than this
/// share of those that run), a job that would run for a period's tenfold or more changes its GPUs, or starts
/// again, only in the first round of each period. Between them it may only be stopped: bursts of arrivals
/// otherwise shrink long jobs step by step, and every gap starts them for seconds.
constexpr double full_idle_share = 0.05, few_waiting_share = 0.15;
constexpr double period_share = 0.1, shortest_period_s = 600, longest_period_s = 7200, appointed_s = 301;
/// Objective fairness: speed counts by this power of the slow-down so far.
constexpr double fairness_power = 4;
/// Shares: so often is the choice made anew with accounts' values times what they lack, at most this.
constexpr int share_rounds = 8;
constexpr double most_share_factor = 1e4;
constexpr double most_priority_weight = 4;
constexpr double starving_s = 7 * 86400;
constexpr double starving_weight = 1e6;

class Round {
  public:
    Round(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options)
        : options_(options), problem_(snapshot, offers, options), packing_(problem_) {}
    Decision decide();

  private:
    void find_priority_range();
    [[nodiscard]] double weight_of(const Task&) const;
    [[nodiscard]] double fastest_s(const Task&) const;
    [[nodiscard]] double time_s(const Task&, const Choice&, bool is_current) const;
    [[nodiscard]] double bonus(const Task&, const Choice&, bool is_current) const;
    void find_calm();
    [[nodiscard]] bool is_settled(const Task&) const;
    void price_offers();
    [[nodiscard]] std::vector<std::int32_t> solve(const std::vector<double>& factors) const;
    [[nodiscard]] std::size_t account_of(const Task&) const;
    double balance(const std::vector<std::int32_t>& chosen, std::vector<double>& factors) const;
    void choose();
    void pack();
    void place_or_fall_back(std::size_t i);
    bool place_any(std::size_t i);
    using Move = std::tuple<double, std::size_t, std::size_t>;  ///< (-gain per GPU, task, choice)
    void find_growth(std::size_t i, std::vector<Move>&) const;
    void grow();
    void fill();
    void give(std::size_t i, std::string_view why);
    [[nodiscard]] std::size_t item(std::size_t i, std::size_t choice) const {
        return problem_.tasks()[i].first_choice + choice;
    }

    const PolicyOptions& options_;
    Problem problem_;
    Packing packing_;
    double lowest_priority_ = 0, highest_priority_ = 0;
    bool calm_ = false;                   ///< full, and few wait
    std::vector<double> values_;          ///< by choice
    std::vector<std::int32_t> chosen_;    ///< by task: index within its choices, or -1
    std::vector<bool> given_;             ///< by task: has what it will have
    std::vector<bool> keeps_;             ///< by task: that is what it runs with
    Placement placement_;
    Decision decision_;
};

void Round::find_priority_range() {
    lowest_priority_ = std::numeric_limits<double>::infinity();
    highest_priority_ = -lowest_priority_;
    for (const Task& task : problem_.tasks()) {
        lowest_priority_ = std::min(lowest_priority_, task.job->priority);
        highest_priority_ = std::max(highest_priority_, task.job->priority);
    }
}

double Round::fastest_s(const Task& task) const {
    double least = std::numeric_limits<double>::infinity();
    for (const Choice& c : problem_.choices(task)) least = std::min(least, c.iteration_s);
    return least;
}

double Round::weight_of(const Task& task) const {
    const JobState& job = *task.job;
    double weight = 1;
    if (highest_priority_ > lowest_priority_) {
        weight += (most_priority_weight - 1) * (job.priority - lowest_priority_) /
                  (highest_priority_ - lowest_priority_);
    }
    if (!task.runs() && job.age_s > starving_s) weight *= starving_weight;
    if (options_.objective == Objective::jct) return weight;
    const double fastest = fastest_s(task);
    weight *= fastest;
    if (options_.objective == Objective::throughput) return weight;
    const std::int32_t asked = problem_.requested(task);
    const double alone_s = (job.done_iterations + task.remaining) *
                           (asked < 0 ? fastest : problem_.choice(asked).iteration_s);
    const double slowdown = (job.age_s + task.remaining * fastest) / std::max(alone_s, 1e-9);
    return weight * std::pow(slowdown, fairness_power);
}

/// Time to finish with the choice, restarts included.
double Round::time_s(const Task& task, const Choice& choice, bool is_current) const {
    const double left_s = Problem::time_left_s(task, choice);
    if (is_current) return left_s + problem_.restart_left_s(task);
    const double restart_s = options_.restart.seconds(choice.gpus);
    return left_s + (task.runs() ? charged_restarts : 1) * restart_s;
}

double Round::bonus(const Task& task, const Choice& choice, bool is_current) const {
    if (!task.runs()) return 1;
    const double left_s = Problem::time_left_s(task, problem_.choice(task.current));
    const double m = momentum * (1 + std::min(1.0, nearly_done_s / left_s));
    if (is_current) return m * keep_bonus;
    return choice.type == problem_.choice(task.current).type ? m : m / type_bonus;
}

void Round::find_calm() {
    std::int64_t idle = 0, all = 0, waiting = 0, running = 0;
    for (std::size_t t = 0; t < problem_.types(); ++t) {
        idle += packing_.free_gpus(static_cast<std::int32_t>(t));
        all += problem_.capacity(t);
    }
    for (const Task& task : problem_.tasks()) ++(task.runs() ? running : waiting);
    calm_ = options_.objective == Objective::jct &&
            static_cast<double>(idle) <= full_idle_share * static_cast<double>(all) &&
            static_cast<double>(waiting) <= few_waiting_share * static_cast<double>(running);
}

/// Whether the job keeps what it has, or has not, until its next appointed time.
bool Round::is_settled(const Task& task) const {
    if (!calm_ || (!task.runs() && (task.job->restarts == 0 || task.job->age_s > starving_s))) return false;
    const double period_s = std::min(longest_period_s, period_share * task.remaining * fastest_s(task));
    return period_s > shortest_period_s &&
           std::fmod(problem_.snapshot().time_s, period_s) >= appointed_s;
}

void Round::price_offers() {
    find_priority_range();
    find_calm();
    for (const Task& task : problem_.tasks()) {
        const double weight = weight_of(task);
        const bool settled = is_settled(task);
        auto at = static_cast<std::int32_t>(task.first_choice);
        for (const Choice& c : problem_.choices(task)) {
            const bool is_current = at++ == task.current;
            double time = time_s(task, c, is_current);
            // Without an end in sight only the speed counts, and what a restart costs of it.
            if (options_.objective != Objective::jct) time /= task.remaining;
            values_.push_back(settled && !is_current ? 0 : weight * bonus(task, c, is_current) / time);
        }
    }
}

std::vector<std::int32_t> Round::solve(const std::vector<double>& factors) const {
    std::vector<std::int64_t> capacity;
    for (std::size_t t = 0; t < problem_.types(); ++t) capacity.push_back(problem_.capacity(t));
    Knapsack knapsack(std::move(capacity));
    for (const Task& task : problem_.tasks()) {
        knapsack.add_group();
        const double factor = factors.empty() ? 1 : factors[account_of(task)];
        std::size_t at = task.first_choice;
        for (const Choice& c : problem_.choices(task)) {
            knapsack.add({c.type, c.gpus, factor * values_[at++]});
        }
    }
    return knapsack.solve(options_.search_steps);
}

/// Position in options.shares; those without a share count together, after them.
std::size_t Round::account_of(const Task& task) const {
    const auto at = options_.shares.find(task.job->account);
    return static_cast<std::size_t>(std::distance(options_.shares.begin(), at));
}

/// Moves the accounts' factors towards their shares of what is given out. Answers how far the furthest
/// account is below its share; accounts without tasks, or with all they can use, lack nothing.
double Round::balance(const std::vector<std::int32_t>& chosen, std::vector<double>& factors) const {
    std::vector<double> used(factors.size(), 0), share(factors.size(), 0);
    std::vector<bool> wants(factors.size(), false);
    double all_used = 0, all_shares = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        const Task& task = problem_.tasks()[i];
        const std::size_t a = account_of(task);
        share[a] = 1;
        if (chosen[i] < 0) wants[a] = true;
        if (chosen[i] < 0) continue;
        const auto gpus =
            static_cast<double>(problem_.choices(task)[static_cast<std::size_t>(chosen[i])].gpus);
        used[a] += gpus;
        all_used += gpus;
    }
    std::size_t a = 0;
    for (const auto& [name, value] : options_.shares) share[a++] *= value;
    for (const double s : share) all_shares += s;
    double worst = 0;
    for (a = 0; a < factors.size(); ++a) {
        if (share[a] == 0 || all_used == 0) continue;
        const double fair = share[a] / all_shares, has = used[a] / all_used;
        if (wants[a]) worst = std::max(worst, fair - has);
        const double step = std::clamp(fair / std::max(has, 1e-3), 0.5, 2.0);
        factors[a] = std::clamp(factors[a] * step, 1 / most_share_factor, most_share_factor);
    }
    return worst;
}

void Round::choose() {
    chosen_ = solve({});
    if (options_.shares.empty()) return;
    std::vector<double> factors(options_.shares.size() + 1, 1.0);
    double least = balance(chosen_, factors);
    for (int i = 0; i < share_rounds && least > 0; ++i) {
        std::vector<std::int32_t> other = solve(factors);
        const double lacking = balance(other, factors);
        if (lacking >= least) continue;
        least = lacking;
        chosen_ = std::move(other);
    }
}

void Round::give(std::size_t i, std::string_view why) {
    decision_.actions.push_back(action_for(problem_.tasks()[i], placement_, std::string(why)));
    given_[i] = true;
}

/// The best offer of the task, but none beyond the GPUs chosen for it, that finds nodes.
bool Round::place_any(std::size_t i) {
    const Task& task = problem_.tasks()[i];
    const auto choices = problem_.choices(task);
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t c = 0; c < choices.size(); ++c) {
        if (values_[item(i, c)] > 0 && packing_.could_fit(choices[c])) order.emplace_back(-values_[item(i, c)], c);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [value, c] : order) {
        const bool within = chosen_[i] < 0 ||
                            choices[c].gpus <= choices[static_cast<std::size_t>(chosen_[i])].gpus;
        if (within && packing_.place(task, choices[c], placement_)) return true;
    }
    return false;
}

void Round::place_or_fall_back(std::size_t i) {
    const Task& task = problem_.tasks()[i];
    const Choice& wanted = problem_.choices(task)[static_cast<std::size_t>(chosen_[i])];
    if (packing_.place(task, wanted, placement_)) {
        return give(i, task.runs() ? "the change pays for its restart" : "worth the price of its GPUs");
    }
    if (task.runs() && packing_.can_take_current(task)) {
        packing_.take_current(task);
        given_[i] = keeps_[i] = true;
    } else if (place_any(i)) {
        give(i, "the best offer that finds nodes");
    }
}

/// Those that keep their nodes first; then changes, the largest first, so that small ones fill gaps.
void Round::pack() {
    const auto& tasks = problem_.tasks();
    given_.assign(tasks.size(), false);
    keeps_.assign(tasks.size(), false);
    std::vector<std::pair<std::int32_t, std::size_t>> changes;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const auto choice = static_cast<std::size_t>(std::max(chosen_[i], 0));
        const bool keeps = tasks[i].runs() && chosen_[i] >= 0 &&
                           static_cast<std::int32_t>(item(i, choice)) == tasks[i].current;
        given_[i] = keeps_[i] = keeps;
        if (tasks[i].runs() && !keeps) packing_.release_current(tasks[i]);
        if (chosen_[i] >= 0 && !keeps) {
            changes.emplace_back(-problem_.choices(tasks[i])[choice].gpus, i);
        }
    }
    std::sort(changes.begin(), changes.end());
    for (const auto& [gpus, i] : changes) place_or_fall_back(i);
}

/// What a running task that keeps its GPUs would gain on idle ones, worth a restart by itself.
void Round::find_growth(std::size_t i, std::vector<Move>& moves) const {
    const Task& task = problem_.tasks()[i];
    const Choice& current = problem_.choice(task.current);
    const double now_s = time_s(task, current, true);
    if (now_s < grow_left_s) return;
    for (std::size_t c = 0; c < task.choice_count; ++c) {
        const Choice& choice = problem_.choices(task)[c];
        const std::int64_t own = choice.type == current.type ? current.gpus : 0;
        if (choice.gpus > packing_.free_gpus(choice.type) + own) continue;
        const double then_s = time_s(task, choice, false);
        if (now_s > grow_factor * then_s) moves.emplace_back((1 / now_s - 1 / then_s) / choice.gpus, i, c);
    }
}

/// Long running jobs move to idle GPUs: nobody else wants them, so no bonus need protect anybody.
void Round::grow() {
    const auto& tasks = problem_.tasks();
    std::vector<Move> moves;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (keeps_[i]) find_growth(i, moves);
    }
    std::sort(moves.begin(), moves.end());
    for (const auto& [gain, i, c] : moves) {
        if (!keeps_[i]) continue;
        packing_.release_current(tasks[i]);
        if (packing_.place(tasks[i], problem_.choices(tasks[i])[c], placement_)) {
            give(i, "idle GPUs finish it sooner");
            keeps_[i] = false;
        } else {
            packing_.take_current(tasks[i]);
        }
    }
}

/// What is left goes to running jobs that lost theirs, then to waiting ones, by value per GPU.
void Round::fill() {
    const auto& tasks = problem_.tasks();
    std::vector<std::tuple<bool, double, std::size_t>> order;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (given_[i]) continue;
        double best = 0;
        for (std::size_t c = 0; c < tasks[i].choice_count; ++c) {
            const Choice& choice = problem_.choices(tasks[i])[c];
            if (packing_.could_fit(choice)) best = std::max(best, values_[item(i, c)] / choice.gpus);
        }
        if (best > 0) order.emplace_back(!tasks[i].runs(), -best, i);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [waits, value, i] : order) {
        if (tasks[i].runs() && packing_.can_take_current(tasks[i])) {
            packing_.take_current(tasks[i]);
            given_[i] = keeps_[i] = true;
        } else if (place_any(i)) {
            give(i, "uses what is idle");
        }
    }
}

Decision Round::decide() {
    price_offers();
    choose();
    pack();
    fill();
    grow();
    for (Action& action : reservations(problem_, values_, given_)) {
        decision_.actions.push_back(std::move(action));
    }
    for (std::size_t i = 0; i < given_.size(); ++i) {
        const Task& task = problem_.tasks()[i];
        if (given_[i]) continue;
        if (task.runs()) {
            decision_.actions.push_back(
                {ActionKind::preempt, task.job->id, {}, {}, "", "others make more of its GPUs"});
        } else if (options_.explain) {
            decision_.waiting.emplace(task.job->id, "others make more of the GPUs now");
        }
    }
    return std::move(decision_);
}

}  // namespace

Decision decide_arena(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options) {
    return Round(snapshot, offers, options).decide();
}

}  // namespace arena
