// SPDX-License-Identifier: GPL-2.0-or-later
#include "slowdown/ski_rental.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace arena::slowdown {

namespace {

/// A loss is a sum of many differences: without it, equality comes one iteration late.
constexpr double rounding = 1e-9;

bool reaches(double lost_s, double overhead_s) {
    return lost_s >= overhead_s - rounding * std::max(1.0, overhead_s);
}

void sort_by_price(std::vector<Priced>& priced) {
    std::sort(priced.begin(), priced.end(), [](const Priced& a, const Priced& b) {
        return std::pair(a.overhead_s, a.strategy) < std::pair(b.overhead_s, b.strategy);
    });
}

}  // namespace

std::optional<Strategy> parse_strategy(std::string_view word) {
    for (const Strategy strategy : all_strategies)
        if (name(strategy) == word) return strategy;
    return std::nullopt;
}

bool helps(Strategy strategy, Cause cause) {
    return cause == Cause::compute || strategy != Strategy::micro_batches;
}

std::vector<Priced> candidates(Cause cause, std::span<const Priced> available) {
    std::vector<Priced> chosen;
    std::copy_if(available.begin(), available.end(), std::back_inserter(chosen),
                 [&](const Priced& p) { return helps(p.strategy, cause); });
    sort_by_price(chosen);
    return chosen;
}

Result<SkiRental> SkiRental::begin(double healthy_s, std::span<const Priced> priced) {
    if (!std::isfinite(healthy_s) || healthy_s <= 0)
        return usage_error("the healthy iteration time is no number of seconds above 0");
    std::vector<Priced> sorted(priced.begin(), priced.end());
    for (const Strategy strategy : all_strategies) {
        const auto same = [&](const Priced& p) { return p.strategy == strategy; };
        if (std::count_if(sorted.begin(), sorted.end(), same) > 1)
            return usage_error("it is priced twice", std::string(name(strategy)));
    }
    for (const Priced& p : sorted)
        if (!std::isfinite(p.overhead_s) || p.overhead_s < 0)
            return usage_error("its overhead is no number of seconds from 0 on",
                               std::string(name(p.strategy)));
    sort_by_price(sorted);
    return SkiRental(healthy_s, std::move(sorted));
}

Result<std::vector<Strategy>> SkiRental::iteration(double iteration_s) {
    if (!std::isfinite(iteration_s) || iteration_s < 0)
        return usage_error("an iteration time is no number of seconds from 0 on");
    lost_s_ += std::max(0.0, iteration_s - healthy_s_);
    std::vector<Strategy> due;
    while (next_ < priced_.size() && reaches(lost_s_, priced_[next_].overhead_s))
        due.push_back(priced_[next_++].strategy);
    return due;
}

std::optional<Priced> SkiRental::next() const {
    if (next_ == priced_.size()) return std::nullopt;
    return priced_[next_];
}

}  // namespace arena::slowdown
