// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/search/genetic.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "array/bounds.h"
#include "array/line.h"
#include "array/list_rule.h"
#include "array/search/polish.h"
#include "base/hash.h"

namespace arena::array {

namespace {

constexpr double appended_per_s = 40e6;  ///< by a core that has other work, too

struct Individual {
    Order order;
    Ticks makespan = never;
};

class Population {
  public:
    Population(const Instance& instance, const Rules& rules, const GeneticOptions& options)
        : instance_(instance), rules_(rules), options_(options), random_(options.seed) {}

    /// Begins with these, and others at random.
    void begin(std::vector<Order> orders);
    /// Until generations or `appended` blocks are used up, or the bound is met.
    void evolve(std::uint64_t appended, Ticks bound, const Deadline& deadline);
    [[nodiscard]] const Individual& best() const {
        return *std::min_element(all_.begin(), all_.end(), shorter);
    }
    [[nodiscard]] std::uint64_t appended() const { return appended_; }

  private:
    static bool shorter(const Individual& a, const Individual& b) {
        return a.makespan < b.makespan;
    }
    void add(std::vector<Individual>& to, Order order);
    std::size_t by_roulette();
    Order crossed(const Order& keeps, const Order& fills);
    void mutate(Order& order);
    void generation();

    const Instance& instance_;
    Rules rules_;
    GeneticOptions options_;
    SplitMix random_;
    std::vector<Individual> all_, children_;
    std::vector<double> wheel_;
    std::vector<char> chosen_;
    std::uint64_t appended_ = 0;
};

void Population::add(std::vector<Individual>& to, Order order) {
    Line line(instance_, rules_);
    const bool whole = append_in_order(line, rules_, order, [](std::size_t, Ticks) {});
    appended_ += (rules_.none() ? 1 : 4) * order.size();
    to.push_back({std::move(order), whole ? line.makespan() : never});
}

void Population::begin(std::vector<Order> orders) {
    for (Order& order : orders) add(all_, std::move(order));
    const Order blocks = one_by_one(instance_);
    while (all_.size() < static_cast<std::size_t>(options_.population)) {
        Order order = blocks;
        for (std::size_t i = order.size(); i > 1; --i)
            std::swap(order[i - 1], order[random_.below(i)]);
        add(all_, std::move(order));
    }
}

/// By worst - makespan + 1; the published 1 / makespan hardly prefers any.
std::size_t Population::by_roulette() {
    const double at = random_.share() * wheel_.back();
    const auto found = std::upper_bound(wheel_.begin(), wheel_.end(), at);
    return std::min(static_cast<std::size_t>(found - wheel_.begin()), all_.size() - 1);
}

/// POX: some jobs stay where they are, the others come in the order of the other parent.
Order Population::crossed(const Order& keeps, const Order& fills) {
    Order child = keeps;
    std::size_t at = 0;
    for (const int job : fills) {
        if (chosen_[static_cast<std::size_t>(job)]) continue;
        while (chosen_[static_cast<std::size_t>(child[at])]) ++at;
        child[at++] = job;
    }
    return child;
}

void Population::mutate(Order& order) {
    for (std::size_t times = random_.below(3); times > 0; --times) {
        const std::size_t a = random_.below(order.size()), b = random_.below(order.size());
        if (random_.below(2) == 0) {
            std::swap(order[a], order[b]);
            continue;
        }
        const int job = order[a];
        order.erase(order.begin() + static_cast<std::ptrdiff_t>(a));
        order.insert(order.begin() + static_cast<std::ptrdiff_t>(b), job);
    }
}

void Population::generation() {
    Ticks worst = 0;
    for (const Individual& one : all_)
        if (one.makespan != never) worst = std::max(worst, one.makespan);
    wheel_.clear();
    for (const Individual& one : all_) {
        const double fitness = one.makespan == never ? 0 : double{1} + worst - one.makespan;
        wheel_.push_back((wheel_.empty() ? 0 : wheel_.back()) + fitness);
    }
    children_.clear();
    while (children_.size() < all_.size()) {
        const Order& a = all_[by_roulette()].order;
        const Order& b = all_[by_roulette()].order;
        chosen_.assign(static_cast<std::size_t>(instance_.jobs), 0);
        for (char& one : chosen_) one = random_.below(2) == 0;
        for (Order child : {crossed(a, b), crossed(b, a)}) {
            mutate(child);
            add(children_, std::move(child));
        }
    }
    // The best lives on; for each other place two are drawn, and the shorter one has it.
    std::vector<Individual> survivors{best()};
    const std::size_t parents = all_.size(), size = parents + children_.size();
    const auto pick = [&]() -> const Individual& {
        const std::size_t i = random_.below(size);
        return i < parents ? all_[i] : children_[i - parents];
    };
    const auto& child = *std::min_element(children_.begin(), children_.end(), shorter);
    if (shorter(child, survivors.front())) survivors.front() = child;
    while (survivors.size() < parents) {
        const Individual &a = pick(), &b = pick();
        survivors.push_back(shorter(b, a) ? b : a);
    }
    all_ = std::move(survivors);
}

void Population::evolve(std::uint64_t appended, Ticks bound, const Deadline& deadline) {
    for (int g = 0; g < options_.generations; ++g) {
        const Ticks least = best().makespan;
        if (appended_ >= appended || least <= bound || least == never || deadline.passed()) return;
        generation();
    }
}

/// What the searches after the population share.
struct Polisher {
    const Instance& instance;
    const Rules& rules;
    const GeneticOptions& options;
    Ticks bound;
    Deadline deadline;
    Order best;
    Ticks least;

    void take(Order order) {
        const auto schedule = append(instance, rules, order);
        if (!schedule || schedule->makespan >= least) return;
        least = schedule->makespan;
        best = std::move(order);
    }
    [[nodiscard]] PolishOptions round(std::uint64_t number, std::uint64_t appended,
                                      double warm) const {
        return {.seed = options.seed * 1000 + number,
                .appended = appended,
                .bound = bound,
                .warm = warm};
    }
    /// Begun with each way of the list rule.
    void polish_list_rule(std::uint64_t appended) {
        for (const Prefer prefer : {Prefer::backward, Prefer::forward}) {
            const bool is_first = prefer == Prefer::backward;
            const std::uint64_t share = is_first ? appended * 3 / 4 : appended / 4;
            if (least <= bound) return;
            Order order = polish_ranks(instance, rules, list_ranks(instance, prefer),
                                       round(is_first ? 0 : 1, share, 0.01), deadline);
            if (!order.empty()) take(std::move(order));
        }
    }
    /// Rounds from the best so far, first as if from anywhere, then ever nearer.
    void polish_order(std::uint64_t appended) {
        std::uint64_t number = 2;
        for (const double warm : {0.1, 0.1, 0.03, 0.01}) {
            if (least <= bound) return;
            take(polish(instance, rules, best, round(number++, appended / 4, warm), deadline));
        }
    }
};

}  // namespace

std::optional<Schedule> solve_genetic(const Instance& instance, const Rules& rules,
                                      const GeneticOptions& options) {
    const std::uint64_t blocks = instance.blocks.size();
    // What small instances need; then what the time allows.
    const std::uint64_t work =
        std::min(static_cast<std::uint64_t>(options.seconds * appended_per_s),
                 blocks * (100'000 + 10'000 * blocks));
    const Deadline deadline(options.seconds);
    const Ticks bound = lower_bound(instance);
    Population population(instance, rules, options);
    population.begin({list_order(instance, rules, Prefer::backward),
                      list_order(instance, rules, Prefer::forward), one_by_one(instance)});
    population.evolve(work / 10, bound, deadline);
    const Individual& best = population.best();
    if (best.makespan == never) return std::nullopt;
    Polisher polisher{.instance = instance,
                      .rules = rules,
                      .options = options,
                      .bound = bound,
                      .deadline = deadline,
                      .best = best.order,
                      .least = best.makespan};
    if (options.polish) {
        polisher.polish_list_rule(work * 4 / 10);
        polisher.polish_order(work / 2);
    }
    return append(instance, rules, polisher.best).value();
}

}  // namespace arena::array
