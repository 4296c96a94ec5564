// SPDX-License-Identifier: GPL-2.0-or-later
// One item per group, or none, so that the sum of values is greatest within a capacity per type:
// the multiple-choice knapsack that a scheduling round is. Exact by dynamic programming where that
// is within the budget of items looked at; else Lagrangian prices, one per type, then repair and
// local search.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace arena {

struct Item {
    std::int32_t type = 0;
    std::int32_t gpus = 0;  ///< > 0
    double value = 0;       ///< over having nothing; items with value <= 0 are never chosen
};

/// Groups times states that an exact answer may take, 4 bytes each: memory does not follow the
/// budget.
inline constexpr std::int64_t max_exact_cells = std::int64_t{1} << 24;

class Knapsack {
  public:
    explicit Knapsack(std::vector<std::int64_t> capacity)
        : capacity_(std::move(capacity)), free_(capacity_), prices_(capacity_.size(), 0.0) {}
    void reserve(std::size_t groups, std::size_t items) {
        first_.reserve(groups);
        items_.reserve(items);
    }
    /// Items belong to the group added last.
    void add_group() { first_.push_back(static_cast<std::uint32_t>(items_.size())); }
    void add(Item item) { items_.push_back(item); }

    /// Answers, per group, the index of its item within the group or -1. Looks at no more than
    /// about `steps` items; with few steps the answer is still within capacity. Deterministic. An
    /// exact answer may take `exact_steps` where those are more.
    std::vector<std::int32_t> solve(std::int64_t steps, std::int64_t exact_steps = 0);

    /// Of the budget of solve(); below 0 by no more than a sweep.
    [[nodiscard]] std::int64_t steps_left() const { return steps_; }
    /// Whether solve() found the optimum by dynamic programming.
    [[nodiscard]] bool solved_exactly() const { return solved_exactly_; }
    /// Price of a GPU of each type after solve(): the dual of the capacity, also where it solved
    /// exactly.
    [[nodiscard]] const std::vector<double>& prices() const { return prices_; }
    /// Upper bound of the sum of values: the Lagrangian at prices().
    [[nodiscard]] double bound() const;
    [[nodiscard]] double value(const std::vector<std::int32_t>& chosen) const;

  private:
    [[nodiscard]] std::size_t groups() const { return first_.size(); }
    [[nodiscard]] std::span<const Item> group(std::size_t g) const {
        const std::size_t end = g + 1 < first_.size() ? first_[g + 1] : items_.size();
        return {items_.data() + first_[g], end - first_[g]};
    }
    [[nodiscard]] double net(const Item& i) const {
        return i.value - prices_[static_cast<std::size_t>(i.type)] * static_cast<double>(i.gpus);
    }
    [[nodiscard]] std::int32_t best_response(std::size_t g) const;
    void find_rivals();
    void find_prices();
    void set_price(std::size_t type);
    [[nodiscard]] double alternative_to(std::size_t type, std::size_t g) const;
    [[nodiscard]] bool fits_at(std::size_t type, double price);
    [[nodiscard]] std::vector<std::pair<double, std::uint32_t>> best_responses() const;
    [[nodiscard]] bool nothing_fits() const;
    void round_down();
    void choose(std::size_t g, std::int32_t item);
    [[nodiscard]] bool fits(std::size_t g, const Item& item) const;
    bool improve();
    struct Release {
        double loss;
        std::int64_t freed;
        std::uint32_t group;
        std::int32_t item;  ///< what the group is left with, or -1
    };
    [[nodiscard]] double chosen_value(std::size_t g) const;
    void find_releases(std::vector<std::vector<Release>>& by_type) const;
    bool improve_in_pairs();
    void find_usable();
    [[nodiscard]] static std::int64_t states(const std::vector<std::int64_t>& capacity);
    [[nodiscard]] bool can_solve_exactly(std::int64_t steps) const;
    void solve_exactly();
    void add_item(std::size_t g, std::int32_t i, const std::vector<double>& best,
                  std::vector<double>& next, std::int32_t* picks) const;

    std::vector<std::int64_t> capacity_, free_, usable_;
    std::vector<double> prices_;
    std::vector<Item> items_;
    std::vector<std::uint32_t> first_;
    std::vector<std::int32_t> chosen_;
    std::int64_t steps_ = 0;
    bool solved_exactly_ = false;
    /// A group that wants GPUs of a type, at no price above its density.
    struct Rival {
        double density = 0;  ///< most value per GPU of its items of the type
        std::uint32_t group = 0;
        /// In items_: all that are of the type and of value; others may stand between them.
        std::uint32_t first = 0, end = 0;
        double alternative =
            -1;  ///< best net value of other types, or nothing; < 0: not worked out yet
    };
    /// What is for sale, by type.
    struct Market {
        std::vector<Rival> rivals;
        std::int64_t items = 0;  ///< of value
        std::int64_t least_gpus = INT64_MAX;
    };
    std::vector<Market> markets_;
    std::vector<Rival> bidders_;  ///< for the type whose price is being set: who may still buy
};

}  // namespace arena
