// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/search/polish.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "array/line.h"
#include "base/hash.h"

namespace arena::array {

namespace {

constexpr std::size_t stride = 16;     ///< blocks between two remembered lines
constexpr std::size_t reach = 20;      ///< how far a block goes
constexpr double share_of_mean = 0.1;  ///< of the mean end of jobs, beside the makespan
constexpr double impossible = std::numeric_limits<double>::infinity();

double cost_of(const Line& line, int jobs) {
    double ends = 0;
    for (int j = 0; j < jobs; ++j) ends += line.ready(j);
    return line.makespan() + share_of_mean * ends / jobs;
}

/// What an order costs; begins where it differs from the last that was kept.
class OrderCost {
  public:
    OrderCost(const Instance& instance, const Rules& rules)
        : instance_(instance), rules_(rules), line_(instance, rules) {
        if (!rules.none()) return;
        kept_.assign(instance.blocks.size() / stride + 1, line_);
        tried_ = kept_;
    }

    double cost(const Order& order, std::size_t from) {
        if (!rules_.none()) return whole_cost(order);
        first_ = from / stride;
        line_ = kept_[first_];
        for (std::size_t i = first_ * stride; i < order.size(); ++i) {
            if (i % stride == 0) tried_[i / stride] = line_;
            line_.append(order[i]);
        }
        appended_ += order.size() - first_ * stride;
        return cost_of(line_, instance_.jobs);
    }
    /// The order of the last cost() is the one to begin from.
    void keep() {
        for (std::size_t i = first_; i < kept_.size(); ++i) std::swap(kept_[i], tried_[i]);
    }
    [[nodiscard]] Ticks makespan() const { return line_.makespan(); }
    [[nodiscard]] std::uint64_t appended() const { return appended_; }

  private:
    double whole_cost(const Order& order) {
        line_ = Line(instance_, rules_);
        appended_ += 4 * order.size();  // what waits is looked at again
        const bool whole = append_in_order(line_, rules_, order, [](std::size_t, Ticks) {});
        return whole ? cost_of(line_, instance_.jobs) : impossible;
    }

    const Instance& instance_;
    Rules rules_;
    Line line_;
    std::vector<Line> kept_, tried_;  ///< before every stride-th block
    std::size_t first_ = 0;
    std::uint64_t appended_ = 0;
};

/// A move and how it is taken back.
class Move {
  public:
    Move(SplitMix& random, const Order& order) {
        const std::size_t n = order.size();
        from_ = random.below(n);
        const std::size_t low = from_ > reach ? from_ - reach : 0;
        to_ = low + random.below(std::min(n, from_ + reach + 1) - low);
        is_swap_ = random.below(2) == 0;
    }
    /// Whether it leaves each job's blocks at their places.
    [[nodiscard]] bool changes(const Order& order) const {
        return from_ != to_ && order[from_] != order[to_];
    }
    [[nodiscard]] std::size_t first() const { return std::min(from_, to_); }
    void apply(Order& order) const {
        is_swap_ ? std::swap(order[from_], order[to_]) : shift(order, from_, to_);
    }
    void undo(Order& order) const {
        is_swap_ ? std::swap(order[from_], order[to_]) : shift(order, to_, from_);
    }

  private:
    static void shift(Order& order, std::size_t from, std::size_t to) {
        const auto at = [&](std::size_t i) {
            return order.begin() + static_cast<std::ptrdiff_t>(i);
        };
        if (from < to)
            std::rotate(at(from), at(from + 1), at(to + 1));
        else
            std::rotate(at(to), at(from), at(from + 1));
    }
    std::size_t from_ = 0, to_ = 0;
    bool is_swap_ = false;
};

/// What ranks cost that the list rule goes by; `items` in the order of their ranks.
class RanksCost {
  public:
    RanksCost(const Instance& instance, const Rules& rules)
        : jobs_(instance.jobs),
          rule_(instance, rules),
          ranks_(2 * static_cast<std::size_t>(jobs_)) {}
    double cost(const std::vector<int>& items, std::size_t) {
        for (std::size_t i = 0; i < items.size(); ++i)
            ranks_[static_cast<std::size_t>(items[i])] = static_cast<int>(i);
        const bool whole = rule_.run(ranks_);
        appended_ += rule_.order().size() * (4 + ranks_.size() / 8);  // it looks at all jobs
        return whole ? cost_of(rule_.line(), jobs_) : impossible;
    }
    void keep() {}
    [[nodiscard]] Ticks makespan() const { return rule_.line().makespan(); }
    [[nodiscard]] std::uint64_t appended() const { return appended_; }
    [[nodiscard]] const Order& order() const { return rule_.order(); }

  private:
    int jobs_;
    ListRule rule_;
    Ranks ranks_;
    std::uint64_t appended_ = 0;
};

/// The best items met.
template <typename Cost>
std::vector<int> anneal(Cost& costs, std::vector<int> items, const PolishOptions& options,
                        const Deadline& deadline) {
    SplitMix random(options.seed);
    double cost = costs.cost(items, 0);
    costs.keep();
    std::vector<int> best = items;
    Ticks least = cost == impossible ? never : costs.makespan();
    const double warm = options.warm * costs.makespan(), cooling = std::log(options.cold);
    double temperature = warm;
    for (std::uint64_t tries = 1; costs.appended() < options.appended && least > options.bound;
         ++tries) {
        if (tries % 64 == 0) {
            if (deadline.passed()) break;
            const double passed =
                static_cast<double>(costs.appended()) / static_cast<double>(options.appended);
            temperature = warm * std::exp(cooling * passed);
        }
        const Move move(random, items);
        if (!move.changes(items)) continue;
        move.apply(items);
        const double other = costs.cost(items, move.first());
        if (other > cost && random.share() >= std::exp((cost - other) / temperature)) {
            move.undo(items);
            continue;
        }
        cost = other;
        costs.keep();
        if (cost == impossible || costs.makespan() >= least) continue;
        least = costs.makespan();
        best = items;
    }
    return best;
}

}  // namespace

Order polish(const Instance& instance, const Rules& rules, Order order,
             const PolishOptions& options, const Deadline& deadline) {
    OrderCost costs(instance, rules);
    return anneal(costs, std::move(order), options, deadline);
}

Order polish_ranks(const Instance& instance, const Rules& rules, Ranks ranks,
                   const PolishOptions& options, const Deadline& deadline) {
    std::vector<int> items(ranks.size());
    for (std::size_t item = 0; item < ranks.size(); ++item)
        items[static_cast<std::size_t>(ranks[item])] = static_cast<int>(item);
    RanksCost costs(instance, rules);
    items = anneal(costs, std::move(items), options, deadline);
    return costs.cost(items, 0) == impossible ? Order{} : costs.order();
}

}  // namespace arena::array
