// SPDX-License-Identifier: GPL-2.0-or-later
// Policy `arena`: see arena_policy.h for the rules, doc/policies.md for what they give.
#include "policy/arena/arena_policy.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "policy/arena/appointed.h"
#include "policy/arena/exhaustive.h"
#include "policy/arena/foresight.h"
#include "policy/arena/long_queue.h"
#include "policy/arena/seating.h"
#include "policy/knapsack.h"
#include "policy/packing.h"
#include "policy/reservation.h"

namespace arena {
namespace {

/// Objective jct: an offer is worth the inverse of its time by the power of 1.25: above 1, so that
/// who ends soon goes first by more than its hours alone say, and what a job gains by more GPUs
/// counts for more, the faster it is already. Two roots cost a fifth of std::pow(), in each round
/// for each offer of each job.
double sharpened(double x) { return x * std::sqrt(std::sqrt(x)); }
/// Jobs that end much sooner than this are much alike, as are all that need longer than that.
constexpr double soon_s = 7200, far_s = 360000;
/// A change of a running job is charged with so many restarts over the time left (it may cause
/// others), and with so many over the job's age per start: who was moved often is soon moved again.
/// Growth on idle GPUs moves nobody else, and is charged with less.
constexpr double charged_restarts = 25, growth_restarts = 10;
/// Starts that cost a job nothing later on, and the age that a younger one is taken to have.
constexpr std::int64_t free_starts = 2;
constexpr double least_age_s = 1800;
/// A running job's current offer counts this much more than another one of its GPU type, and the
/// latter as much more than one of another type: the first where nobody waits, the second where
/// this share of the jobs does or more.
constexpr double least_bonus = 1.08, most_bonus = 1.38, crowded_share = 0.15;
/// Every offer of a running job counts this much more than those of waiting jobs, and more still,
/// up to twice, when it ends within about this time: who is nearly done is not worth two restarts.
constexpr double momentum = 1.5, nearly_done_s = 3000;
/// Idle GPUs are taken by running jobs that they finish by this factor sooner.
constexpr double grow_factor = 1.1;
/// Appointed times: while no GPU is idle and few wait (no more than this share of those that run),
/// a long job changes its GPUs, or starts again, only at its appointed times (appointed.h). Between
/// them it may only be stopped: bursts of arrivals
/// otherwise shrink long jobs step by step, and every gap starts them for seconds.
constexpr double few_waiting_share = 0.15;
/// Objective fairness: speed counts by this power of the slow-down so far.
constexpr double fairness_power = 4;
/// Shares: so often is the choice made anew with accounts' values times what they lack, at most
/// this.
constexpr int share_rounds = 8;
constexpr double most_share_factor = 1e4;
constexpr double most_priority_weight = 4;
/// A job that waits longer goes first, each time that it was started already later by as much, at
/// most thus often; and then it keeps its GPUs for a while: more such jobs than GPUs would only
/// start each other anew.
constexpr double starving_s = 7 * 86400, most_starving_bounds = 4, starving_quantum_s = 3600;
constexpr double starving_weight = 1e6;
/// A job for which enough GPUs are free, but scattered, waits for the next ones as long as that was
/// first expected to take, and so much longer; then it takes what it can get.
constexpr double patience_s = 600;
/// A choice for life beside elastic jobs costs no more than this times the least; and more than any
/// value.
constexpr double most_over = 1.05, most_wished = 1e300;
/// Attempts to seat a choice on nodes, and how much better another one must be.
constexpr int reseatings = 3;
constexpr double better_seating = 1.01, rounding = 1e-9;

/// Waits, or was started while it did, for longer than its bound.
bool has_starved(const JobState& job, double ran_s, bool runs) {
    const auto starts_before = static_cast<double>(job.restarts - (runs ? 1 : 0));
    return job.age_s - ran_s >
           starving_s * std::clamp(1 + starts_before, 1.0, most_starving_bounds);
}

/// Waiting jobs that are left out of a round. Where all of them are to be told why they wait, or
/// have a shape reserved, none is.
std::vector<bool> left_out_of(const Snapshot& snapshot, const Offers& offers,
                              const PolicyOptions& options) {
    if (options.explain || options.reserve_depth > 0 || !options.shares.empty() ||
        options.objective != Objective::jct)
        return {};
    return out_of_reach(snapshot, offers,
                        [](const JobState& job) { return has_starved(job, 0, false); });
}

class Round {
  public:
    Round(const Snapshot& snapshot, const Offers& offers, const PolicyOptions& options)
        : offers_(offers),
          options_(options),
          left_out_(left_out_of(snapshot, offers, options)),
          problem_(snapshot, offers, options, Scope::all, left_out_),
          packing_(problem_),
          steps_(options.search_steps) {}
    Decision decide();

  private:
    void look_at_jobs();
    [[nodiscard]] bool is_starving(const Task&) const;
    [[nodiscard]] bool is_impatient(const Task&) const;
    [[nodiscard]] double weight_of(const Task&) const;
    [[nodiscard]] double time_s(const Task&, const Choice&, bool is_current) const;
    [[nodiscard]] double bonus(const Task&, const Choice&, bool is_current) const;
    [[nodiscard]] double stay_charge(const Task&, const Choice&, double restarts) const;
    [[nodiscard]] double value_of(const Task&, double weight, double time_s) const;
    void find_calm();
    [[nodiscard]] bool is_settled(const Task&) const;
    void price_offers();
    void look_ahead();
    [[nodiscard]] std::string why_waits(std::size_t task) const;
    void say_what_is_impossible(Decision&) const;
    [[nodiscard]] std::vector<std::int32_t> solve(const std::vector<double>& factors,
                                                  const std::vector<double>& values);
    [[nodiscard]] std::size_t account_of(const Task&) const;
    [[nodiscard]] bool is_shared() const;
    double balance(const std::vector<std::int32_t>& chosen, std::vector<double>& factors) const;
    void choose();
    void drop_impossible();
    Seating seat();
    bool search_all(const Seats&, Seating& best);
    using Move = std::tuple<double, std::size_t, std::size_t>;  ///< (-gain per GPU, task, choice)
    void find_growth(const Seating&, std::size_t i, std::vector<Move>&) const;
    void grow(Seating&);
    [[nodiscard]] std::size_t item(std::size_t i, std::size_t choice) const {
        return problem_.tasks()[i].first_choice + choice;
    }

    const Offers& offers_;
    const PolicyOptions& options_;
    std::vector<bool> left_out_;  ///< by job of the snapshot; empty: none
    Problem problem_;
    Packing packing_;
    double lowest_priority_ = 0, highest_priority_ = 0;
    bool calm_ = false;                  ///< no GPU is idle, and few wait
    double change_bonus_ = least_bonus;  ///< by how many wait
    std::vector<double> weights_;        ///< by task
    std::vector<double> values_;         ///< by choice
    std::vector<double> wished_;        ///< the same, also of what others' GPUs would be needed for
    std::vector<Prospect> prospects_;   ///< by task; empty: nothing is foreseen
    std::vector<double> moved_;         ///< by task: value of its current choice on other nodes
    std::vector<std::int32_t> chosen_;  ///< by task: index within its choices, or -1
    std::vector<double>
        prices_;          ///< of a GPU by type, and whether chosen_ is the best there is by count,
    bool exact_ = false;  ///< both without shares
    std::vector<bool> starving_;  ///< by task
    std::int64_t steps_;          ///< left of the budget
};

/// Priorities of all jobs with offers that may be started or moved, and how many wait: a node more
/// changes nobody's weight.
void Round::look_at_jobs() {
    lowest_priority_ = std::numeric_limits<double>::infinity();
    highest_priority_ = -lowest_priority_;
    double waiting = 0, all = 0;
    auto at = offers_.begin();
    for (const JobState& job : problem_.snapshot().jobs) {
        if (job.phase == JobPhase::running && !job.elastic) continue;
        at = find_from(offers_, at, job.id);
        if (at == offers_.end() || at->second.empty()) continue;
        lowest_priority_ = std::min(lowest_priority_, job.priority);
        highest_priority_ = std::max(highest_priority_, job.priority);
        waiting += job.phase == JobPhase::pending ? 1 : 0;
        all += 1;
    }
    const double crowd = all > 0 ? std::min(1.0, waiting / all / crowded_share) : 0;
    change_bonus_ = least_bonus + crowd * (most_bonus - least_bonus);
}

bool Round::is_starving(const Task& task) const {
    const JobState& job = *task.job;
    const double ran_s = task.runs() ? problem_.snapshot().time_s - job.start_s : 0;
    if (task.runs() && (job.start_s <= 0 || ran_s > starving_quantum_s)) return false;
    return has_starved(job, ran_s, task.runs());
}

bool Round::is_impatient(const Task& task) const {
    return task.job->patient_until_s > 0 && problem_.snapshot().time_s > task.job->patient_until_s;
}

double Round::weight_of(const Task& task) const {
    const JobState& job = *task.job;
    double weight = 1;
    if (highest_priority_ > lowest_priority_) {
        weight += (most_priority_weight - 1) * (job.priority - lowest_priority_) /
                  (highest_priority_ - lowest_priority_);
    }
    if (is_starving(task)) weight *= starving_weight;
    if (options_.objective == Objective::jct) return weight;
    const double fastest = task.fastest_s;
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

/// By what a restart, so often, lengthens the job's age per start; the first starts do not count,
/// and a young job may still grow.
double Round::stay_charge(const Task& task, const Choice& choice, double restarts) const {
    if (options_.objective != Objective::jct) return 1;
    const auto starts =
        static_cast<double>(std::max<std::int64_t>(0, task.job->restarts - free_starts));
    return 1 + restarts * options_.restart.seconds(choice.gpus) * starts /
                   std::max(least_age_s, task.job->age_s);
}

double Round::bonus(const Task& task, const Choice& choice, bool is_current) const {
    if (!task.runs()) return 1;
    const double left_s = Problem::time_left_s(task, problem_.choice(task.current));
    const double m = momentum * (1 + std::min(1.0, nearly_done_s / left_s));
    if (is_current) return m * change_bonus_;
    const bool same_type = choice.type == problem_.choice(task.current).type;
    return m / (same_type ? 1 : change_bonus_) / stay_charge(task, choice, charged_restarts);
}

double Round::value_of(const Task& task, double weight, double time_s) const {
    // Without an end in sight only the speed counts, and what a restart costs of it.
    if (options_.objective != Objective::jct) return weight * task.remaining / time_s;
    const double least_s = task.remaining * task.fastest_s + options_.restart.checkpoint_s +
                           options_.restart.launch_cap_s;
    return weight * sharpened(least_s / time_s / (std::min(least_s, far_s) + soon_s));
}

void Round::find_calm() {
    std::int64_t idle = 0, running = 0;
    std::int64_t waiting = std::count(left_out_.begin(), left_out_.end(), true);
    std::vector<bool> wanted(problem_.types());  // GPUs that no job may use are nobody's
    std::vector<bool> seen(problem_.kinds());
    for (const Task& task : problem_.tasks()) {
        ++(task.runs() ? running : waiting);
        if (seen[task.kind]) continue;
        seen[task.kind] = true;
        for (const Choice& c : problem_.choices(task))
            wanted[static_cast<std::size_t>(c.type)] = true;
    }
    for (std::size_t type = 0; type < wanted.size(); ++type)
        if (wanted[type]) idle += packing_.free_gpus(static_cast<std::int32_t>(type));
    calm_ = options_.objective == Objective::jct && idle == 0 &&
            static_cast<double>(waiting) <= few_waiting_share * static_cast<double>(running);
}

/// Whether the job keeps what it has, or has not, until its next appointed time.
bool Round::is_settled(const Task& task) const {
    if (!calm_ || is_starving(task) || (!task.runs() && task.job->restarts == 0)) return false;
    const double now_s = problem_.snapshot().time_s;
    double since_s = now_s - task.job->submit_s, left = task.remaining;
    if (task.runs()) {
        const Choice& current = problem_.choice(task.current);
        since_s = now_s - task.job->start_s;
        left +=
            std::max(0.0, since_s - options_.restart.seconds(current.gpus)) / current.iteration_s;
    }
    const double period_s = appointed_period_s(left * task.fastest_s);
    return period_s > 0 && !is_appointed(since_s, period_s, options_.window_s);
}

void Round::price_offers() {
    look_at_jobs();
    find_calm();
    for (const Task& task : problem_.tasks()) {
        const double weight = weights_.emplace_back(weight_of(task));
        const bool settled = is_settled(task);
        starving_.push_back(is_starving(task));
        moved_.push_back(0);
        auto at = static_cast<std::int32_t>(task.first_choice);
        for (const Choice& c : problem_.choices(task)) {
            const bool is_current = at++ == task.current;
            const auto value = [&](bool here) {
                return value_of(task, weight, time_s(task, c, here)) * bonus(task, c, here);
            };
            values_.push_back(is_current ? value(true) : settled ? 0 : value(false));
            if (is_current && !settled) moved_.back() = value(false);
        }
    }
}

/// Jobs whose choice is for life take what is foreseen to be best for them, or wait for it: other
/// choices that cost more are worth nothing. Beside elastic jobs, whose GPUs they could be given as
/// well, those that cost hardly more stay, for less.
void Round::look_ahead() {
    if (options_.objective != Objective::jct) return;
    const auto& tasks = problem_.tasks();
    const bool any_elastic =
        std::any_of(tasks.begin(), tasks.end(), [](const Task& task) { return task.job->elastic; });
    const Foresight foresight(problem_, packing_, weights_);
    prospects_ = foresight.prospects();
    for (std::size_t i = 0; i < prospects_.size(); ++i) {
        Prospect& prospect = prospects_[i];
        if (starving_[i] || is_impatient(tasks[i])) prospect = {};
        if (prospect.best == nullptr) continue;
        std::size_t at = tasks[i].first_choice;
        for (const Choice& c : problem_.choices(tasks[i])) {
            const double over = foresight.over(i, c);
            const bool takes = &c == prospect.best && prospect.wait_s <= 0;
            const double factor = takes                              ? 1
                                  : any_elastic && over <= most_over ? 1 / std::max(over, 1.0)
                                                                     : 0;
            if (&c == prospect.best) wished_[at] = most_wished;
            values_[at++] *= factor;
        }
    }
}

std::vector<std::int32_t> Round::solve(const std::vector<double>& factors,
                                       const std::vector<double>& values) {
    std::vector<std::int64_t> capacity;
    for (std::size_t t = 0; t < problem_.types(); ++t) capacity.push_back(problem_.capacity(t));
    Knapsack knapsack(std::move(capacity));
    knapsack.reserve(problem_.tasks().size(), values.size());
    for (const Task& task : problem_.tasks()) {
        knapsack.add_group();
        const double factor = factors.empty() ? 1 : factors[account_of(task)];
        std::size_t at = task.first_choice;
        for (const Choice& c : problem_.choices(task)) {
            knapsack.add({c.type, c.gpus, factor * values[at++]});
        }
    }
    std::vector<std::int32_t> chosen = knapsack.solve(options_.search_steps);
    if (prices_.empty()) {
        prices_ = knapsack.prices();
        exact_ = knapsack.solved_exactly();
    }
    steps_ -= options_.search_steps - knapsack.steps_left();
    return chosen;
}

/// Position in options.shares; those without a share count together, after them.
std::size_t Round::account_of(const Task& task) const {
    const auto at = options_.shares.find(task.job->account);
    return static_cast<std::size_t>(std::distance(options_.shares.begin(), at));
}

/// Whether there are shares to keep: an account alone has everything.
bool Round::is_shared() const {
    const auto& tasks = problem_.tasks();
    return !options_.shares.empty() &&
           std::any_of(tasks.begin(), tasks.end(), [&](const Task& task) {
               return account_of(task) != account_of(tasks.front());
           });
}

/// Moves the accounts' factors towards their shares of what is given out. Answers how far the
/// furthest account is below its share; accounts without tasks, or with all they can use, lack
/// nothing.
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
    chosen_ = solve({}, values_);
    if (!is_shared()) return;
    std::vector<double> factors(options_.shares.size() + 1, 1.0);
    double least = balance(chosen_, factors);
    for (int i = 0; i < share_rounds && least > 0; ++i) {
        std::vector<std::int32_t> other = solve(factors, values_);
        const double lacking = balance(other, factors);
        if (lacking >= least) continue;
        least = lacking;
        chosen_ = std::move(other);
    }
}

/// What could not even stand on its nodes alone is worth nothing.
void Round::drop_impossible() {
    Packing alone = packing_;
    for (const Task& task : problem_.tasks()) {
        if (task.runs()) alone.release_current(task);
    }
    std::vector<std::vector<bool>> stands(problem_.kinds());  // by kind, then choice
    for (const Task& task : problem_.tasks()) {
        std::vector<bool>& known = stands[task.kind];
        if (known.empty())
            for (const Choice& c : problem_.choices(task))
                known.push_back(alone.could_stand(task, c));
        for (std::size_t c = 0; c < known.size(); ++c) {
            const std::size_t at = task.first_choice + c;
            if (!known[c] && static_cast<std::int32_t>(at) != task.current) values_[at] = 0;
        }
    }
}

/// Few jobs: tries all that could be. True when nothing can be better than `best` then.
bool Round::search_all(const Seats& seats, Seating& best) {
    if (is_shared()) return false;
    double by_count = 0;
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
        if (chosen_[i] >= 0) by_count += values_[item(i, static_cast<std::size_t>(chosen_[i]))];
    }
    if (exact_ && best.value() >= (1 - rounding) * by_count) return true;
    const bool starves = std::find(starving_.begin(), starving_.end(), true) != starving_.end();
    if (starves || !Exhaustive::is_small(problem_)) return false;
    std::int64_t steps = steps_ / 2;
    steps_ -= steps;
    Exhaustive all(problem_, packing_, values_, moved_, prices_);
    std::vector<Seat> found = all.search(best.value(), steps);
    if (!found.empty()) {
        Seating other(seats, packing_);
        other.seat_as(std::move(found));
        best = std::move(other);
    }
    return steps > 0;
}

/// Puts what was chosen on nodes. What finds none is tried first in the next attempt, then not
/// chosen again, as far as the budget goes; an attempt has to be better by what one job matters in
/// a small cluster.
Seating Round::seat() {
    const Seats seats{&problem_, values_, moved_, &starving_};
    RoomMaker room(problem_, values_, moved_);
    Seating best(seats, packing_);
    best.seat(chosen_, {}, room);
    if (search_all(seats, best)) return best;
    std::vector<std::size_t> missed = best.missed(), first;
    std::vector<double> left = values_;
    for (int attempt = 1; !missed.empty() && (attempt <= reseatings || steps_ > 0); ++attempt) {
        if (attempt % (reseatings + 1) == 0) {
            if (is_shared()) break;
            for (const std::size_t i : missed)
                left[item(i, static_cast<std::size_t>(chosen_[i]))] = 0;
            chosen_ = solve({}, left);
            first.clear();
        } else {
            std::erase_if(first, [&](std::size_t i) {
                return std::count(missed.begin(), missed.end(), i) > 0;
            });
            first.insert(first.begin(), missed.begin(), missed.end());
        }
        Seating other(seats, packing_);
        other.seat(chosen_, first, room);
        missed = other.missed();
        if (other.value() > better_seating * best.value()) best = std::move(other);
    }
    return best;
}

/// What a running task that keeps its GPUs would gain on idle ones, worth a restart by itself.
void Round::find_growth(const Seating& seating, std::size_t i, std::vector<Move>& moves) const {
    const Task& task = problem_.tasks()[i];
    const Choice& current = problem_.choice(task.current);
    const double now_s = time_s(task, current, true);
    for (std::size_t c = 0; c < task.choice_count; ++c) {
        const Choice& choice = problem_.choices(task)[c];
        const std::int64_t own = choice.type == current.type ? current.gpus : 0;
        if (choice.gpus > seating.packing().free_gpus(choice.type) + own) continue;
        const double then_s = time_s(task, choice, false);
        const double charge = stay_charge(task, choice, growth_restarts);
        if (now_s > grow_factor * charge * then_s)
            moves.emplace_back((1 / now_s - 1 / then_s) / choice.gpus, i, c);
    }
}

/// Running jobs move to idle GPUs: nobody else wants them, so no bonus need protect anybody.
void Round::grow(Seating& seating) {
    const auto& tasks = problem_.tasks();
    std::vector<Move> moves;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        if (seating.keeps()[i]) find_growth(seating, i, moves);
    }
    std::sort(moves.begin(), moves.end());
    for (const auto& [gain, i, c] : moves) {
        if (seating.keeps()[i])
            seating.move(i, problem_.choices(tasks[i])[c], "idle GPUs finish it sooner");
    }
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

std::string Round::why_waits(std::size_t i) const {
    const bool foreseen =
        !prospects_.empty() && prospects_[i].best != nullptr && prospects_[i].wait_s > 0;
    if (!foreseen) return waiting_words(problem_, problem_.tasks()[i], wished_);
    const Offer& offer = *problem_.offers(*prospects_[i].best).front();
    return fmt::format("waits for {}: expected to be free within {}", short_form(offer.grid),
                       within_words(prospects_[i].wait_s));
}

/// Jobs without any choice take no part in the round, but have to be told so.
void Round::say_what_is_impossible(Decision& decision) const {
    std::set<JobId> known;
    for (const Task& task : problem_.tasks()) known.insert(task.job->id);
    for (const JobState& job : problem_.snapshot().jobs) {
        if (job.phase == JobPhase::pending && !known.contains(job.id))
            decision.waiting.emplace(job.id, nowhere_words);
    }
}

Decision Round::decide() {
    price_offers();
    wished_ = values_;
    look_ahead();
    drop_impossible();
    choose();
    Seating seating = seat();
    grow(seating);
    Decision decision;
    decision.actions = std::move(seating.actions());
    for (Action& action : reservations(problem_, wished_, seating.given())) {
        decision.actions.push_back(std::move(action));
    }
    for (std::size_t i = 0; i < seating.given().size(); ++i) {
        const Task& task = problem_.tasks()[i];
        if (seating.given()[i]) continue;
        if (task.runs()) {
            decision.actions.push_back(
                {ActionKind::preempt, task.job->id, {}, {}, "", "others make more of its GPUs"});
            continue;
        }
        if (!prospects_.empty() && prospects_[i].scattered)
            decision.patience.emplace(
                task.job->id, problem_.snapshot().time_s + prospects_[i].wait_s + patience_s);
        if (options_.explain) decision.waiting.emplace(task.job->id, why_waits(i));
    }
    if (options_.explain) say_what_is_impossible(decision);
    return decision;
}

}  // namespace

Decision decide_arena(const Snapshot& snapshot, const Offers& offers,
                      const PolicyOptions& options) {
    return Round(snapshot, offers, options).decide();
}

}  // namespace arena
