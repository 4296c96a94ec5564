// SPDX-License-Identifier: GPL-2.0-or-later
// See waits.h.
#include "slowdown/waits.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <utility>

#include "base/statistics.h"

namespace arena::slowdown {
namespace {

constexpr double most_factor = 1000;
constexpr double surest = 0.99;            ///< nothing that was not checked is certain
constexpr double least_noise = 0.01;       ///< of a step
constexpr double normal_by_mad = 1.4826;   ///< standard deviation of a normal distribution
constexpr double steady = 0.75;            ///< of its iterations, in which a slow rank is slow
constexpr double mean_by_median = 1.2533;  ///< standard error of the median over that of the mean

/// Median and spread of some samples.
struct Level {
    double middle = 0, spread = 0;
    std::size_t samples = 0;
};

Level level_of(const std::vector<double>& values) {
    const double middle = median_of(values);
    std::vector<double> away;
    for (const double value : values) away.push_back(std::abs(value - middle));
    return {middle, normal_by_mad * median_of(std::move(away)), values.size()};
}

double error_of(const Level& level, double least_spread) {
    return mean_by_median * std::max(level.spread, least_spread) /
           std::sqrt(static_cast<double>(level.samples));
}

/// One thing, before and now.
struct Growth {
    Level before, now;
    [[nodiscard]] double growth() const { return now.middle - before.middle; }
    [[nodiscard]] double error(double least_spread) const {
        return std::hypot(error_of(before, least_spread), error_of(now, least_spread));
    }
};

std::vector<double> own_of(const RankWaits& rank) {
    std::vector<double> own = rank.step_s;
    for (const WaitedCalls& calls : rank.calls)
        for (std::size_t i = 0; i < own.size(); ++i) own[i] -= calls.seconds[i];
    return own;
}

double mean_beyond(const std::vector<double>& values, double limit) {
    double sum = 0;
    for (const double value : values) sum += std::max(0.0, value - limit);
    return sum / static_cast<double>(values.size());
}

double chance_beyond(double value, double limit, double error) {
    const double z = (value - limit) / std::max(error, 1e-12);
    return std::min(surest, 0.5 * std::erfc(-z / std::numbers::sqrt2));
}

// ---- what came in ------------------------------------------------------------------------------

bool is_call_time(double s) { return std::isfinite(s) && s >= 0; }

Status check_look(const Look& look) {
    std::set<int> seen;
    for (const RankWaits& rank : look) {
        const std::string where = "rank " + std::to_string(rank.rank);
        if (!seen.insert(rank.rank).second) return usage_error("is there twice", where);
        for (const double step : rank.step_s)
            if (!is_call_time(step) || step <= 0)
                return usage_error("a step takes more than 0 seconds", where);
        for (const WaitedCalls& calls : rank.calls)
            if (calls.seconds.size() != rank.step_s.size() ||
                !std::ranges::all_of(calls.seconds, is_call_time))
                return usage_error("a time in calls, from 0 seconds on, is for each step", where);
    }
    return Done{};
}

// ---- groups ------------------------------------------------------------------------------------

using Members = std::map<int, std::vector<double>>;  ///< seconds of each iteration, by rank
struct GroupKey {
    std::string group;
    std::vector<int> pair;  ///< of sends and receives
    auto operator<=>(const GroupKey&) const = default;
};

void add_seconds(std::vector<double>& to, const std::vector<double>& seconds) {
    to.resize(seconds.size());
    for (std::size_t i = 0; i < seconds.size(); ++i) to[i] += seconds[i];
}

/// Ranks of a group, in their order: by it peers are numbered.
std::map<std::string, std::vector<int>> ranks_of_groups(const Look& look) {
    std::map<std::string, std::set<int>> sets;
    for (const RankWaits& rank : look)
        for (const WaitedCalls& calls : rank.calls) sets[calls.group].insert(rank.rank);
    std::map<std::string, std::vector<int>> ranks;
    for (const auto& [group, members] : sets) ranks[group].assign(members.begin(), members.end());
    return ranks;
}

std::map<GroupKey, Members> groups_of(const Look& look) {
    const auto ranks = ranks_of_groups(look);
    std::map<GroupKey, Members> groups;
    for (const RankWaits& rank : look)
        for (const WaitedCalls& calls : rank.calls) {
            GroupKey key{calls.group, {}};
            const std::vector<int>& members = ranks.at(calls.group);
            if (calls.peer >= 0) {
                if (calls.peer >= std::ssize(members)) continue;
                const int peer = members[static_cast<std::size_t>(calls.peer)];
                key.pair = {std::min(rank.rank, peer), std::max(rank.rank, peer)};
            }
            add_seconds(groups[key][rank.rank], calls.seconds);
        }
    std::erase_if(groups, [](const auto& one) {
        return one.second.size() < std::max<std::size_t>(2, one.first.pair.size());
    });
    return groups;
}

// ---- the comparison ----------------------------------------------------------------------------

class Comparison {
  public:
    Comparison(const Look& before, const Look& now, const WaitLimits& limits)
        : before_(before), now_(now), limits_(limits) {
        compare_ranks();
    }
    /// Whether the steps have become longer, by so much that somebody may be named.
    [[nodiscard]] bool has_grown() const {
        return !own_.empty() && growth_ > 0.5 * (limits_.threshold - 1) * step_before_ &&
               growth_ > 2 * growth_error_;
    }
    [[nodiscard]] double step_factor() const {
        return step_before_ > 0 ? 1 + growth_ / step_before_ : 1;
    }
    [[nodiscard]] bool is_common() const { return common_ > limits_.share * growth_; }
    /// Somebody computes longer, each time another one perhaps.
    [[nodiscard]] bool is_computing() const { return own_excess_ > limits_.share * growth_; }
    [[nodiscard]] std::vector<SlowRank> slow_ranks(double confidence) const;
    [[nodiscard]] std::vector<SlowGroup> slow_groups(double confidence) const;

  private:
    void compare_ranks();
    [[nodiscard]] double chance(double growth, const Growth& change, double least_spread) const {
        const double error = std::hypot(change.error(least_spread), limits_.share * growth_error_);
        return chance_beyond(growth, limits_.share * growth_, error);
    }
    /// Most single iterations say so, too: a straggler that moves is another one in the next.
    [[nodiscard]] bool is_steady(const std::vector<double>& now, double before) const {
        const double least = before + common_ + limits_.share / 2 * growth_;
        return static_cast<double>(std::ranges::count_if(now, [&](double own) {
                   return own > least;
               })) >= steady * static_cast<double>(now.size());
    }
    [[nodiscard]] std::optional<SlowGroup> judge(const GroupKey& key, const Members& before,
                                                 const Members& now) const;

    const Look &before_, &now_;
    WaitLimits limits_;
    std::map<int, Growth> own_;
    std::map<int, std::vector<double>> own_now_;  ///< of each iteration
    double own_excess_ = 0;                       ///< of all ranks, whoever it is in a step
    double step_before_ = 0, growth_ = 0, growth_error_ = 0, common_ = 0, usual_spread_ = 0;
};

void Comparison::compare_ranks() {
    std::map<int, const RankWaits*> known;
    for (const RankWaits& rank : before_) known[rank.rank] = &rank;
    std::vector<double> steps, grown, errors, own_grown, spreads;
    for (const RankWaits& rank : now_) {
        const auto earlier = known.find(rank.rank);
        if (earlier == known.end() || rank.step_s.size() < limits_.steps ||
            earlier->second->step_s.size() < limits_.steps)
            continue;
        const Growth step{level_of(earlier->second->step_s), level_of(rank.step_s)};
        const std::vector<double> own_before = own_of(*earlier->second), own_now = own_of(rank);
        const Growth own{level_of(own_before), level_of(own_now)};
        steps.push_back(step.before.middle);
        grown.push_back(step.growth());
        errors.push_back(step.error(least_noise * step.before.middle));
        own_grown.push_back(own.growth());
        spreads.push_back(std::max(own.before.spread, own.now.spread));
        own_[rank.rank] = own;
        own_now_[rank.rank] = own_now;
        own_excess_ +=
            mean_beyond(own_now, own.before.middle) - mean_beyond(own_before, own.before.middle);
    }
    if (own_.empty()) return;
    step_before_ = median_of(steps);
    growth_ = median_of(grown);
    growth_error_ = median_of(errors);
    common_ = std::max(0.0, median_low_of(own_grown));
    usual_spread_ = std::max(median_low_of(spreads), least_noise * step_before_);
}

std::vector<SlowRank> Comparison::slow_ranks(double confidence) const {
    std::vector<SlowRank> slow;
    for (const auto& [rank, own] : own_) {
        const double excess = own.growth() - common_;
        const double certainty = chance(excess, own, usual_spread_);
        if (certainty < confidence || !is_steady(own_now_.at(rank), own.before.middle)) continue;
        const double was = std::max(own.before.middle, 0.05 * step_before_);
        slow.push_back({.rank = rank,
                        .share = excess / growth_,
                        .factor = std::min(most_factor, 1 + excess / was),
                        .confidence = certainty});
    }
    std::ranges::stable_sort(slow, std::greater<>(), &SlowRank::share);
    if (slow.size() > std::max<std::size_t>(1, own_.size() / 4)) return {};
    return slow;
}

std::optional<SlowGroup> Comparison::judge(const GroupKey& key, const Members& before,
                                           const Members& now) const {
    std::optional<Growth> least;
    SlowGroup group{.group = key.group, .ranks = {}};
    for (const auto& [rank, seconds] : now) {
        const auto earlier = before.find(rank);
        if (earlier == before.end() || !own_.contains(rank)) return std::nullopt;
        const Growth change{level_of(earlier->second), level_of(seconds)};
        if (!least || change.growth() < least->growth()) least = change;
        group.ranks.push_back(rank);
    }
    group.share = least->growth() / growth_;
    group.confidence = chance(least->growth(), *least, least_noise * step_before_);
    const double was = std::max(least->before.middle, 0.001 * step_before_);
    group.factor = std::clamp(1 + least->growth() / was, 1.0, most_factor);
    return group;
}

std::vector<SlowGroup> Comparison::slow_groups(double confidence) const {
    const auto before = groups_of(before_), now = groups_of(now_);
    std::vector<SlowGroup> slow;
    for (const auto& [key, members] : now) {
        const auto earlier = before.find(key);
        if (earlier == before.end()) continue;
        const auto group = judge(key, earlier->second, members);
        if (group && group->confidence >= confidence) slow.push_back(*group);
    }
    std::ranges::stable_sort(slow, [](const SlowGroup& a, const SlowGroup& b) {
        return std::pair(a.ranks.size(), -a.share) < std::pair(b.ranks.size(), -b.share);
    });
    return slow;
}

WaitVerdict compare(const Look& before, const Look& now, const WaitLimits& limits) {
    const Comparison comparison(before, now, limits);
    WaitVerdict verdict;
    verdict.step_factor = comparison.step_factor();
    if (!comparison.has_grown()) return verdict;
    verdict.ranks = comparison.slow_ranks(limits.confidence);
    verdict.is_common = comparison.is_common();
    // No link is blamed where others are waited for.
    if (!comparison.is_computing() && comparison.slow_ranks(0.5).empty())
        verdict.groups = comparison.slow_groups(limits.confidence);
    return verdict;
}

template <typename Found, typename IsIt>
bool is_in(const std::vector<Found>& found, IsIt is_it) {
    return std::ranges::any_of(found, is_it);
}

}  // namespace

void add_look(Look& into, const Look& more) {
    for (const RankWaits& one : more) {
        const auto at = std::ranges::find(into, one.rank, &RankWaits::rank);
        RankWaits& rank = at != into.end() ? *at : into.emplace_back(RankWaits{one.rank, {}, {}});
        const std::size_t had = rank.step_s.size(), all = had + one.step_s.size();
        rank.step_s.insert(rank.step_s.end(), one.step_s.begin(), one.step_s.end());
        for (const WaitedCalls& calls : one.calls) {
            auto known = std::ranges::find_if(rank.calls, [&](const WaitedCalls& w) {
                return w.group == calls.group && w.peer == calls.peer;
            });
            if (known == rank.calls.end()) {
                rank.calls.push_back({calls.group, calls.peer, {}});
                known = std::prev(rank.calls.end());
            }
            known->seconds.resize(had);
            known->seconds.insert(known->seconds.end(), calls.seconds.begin(), calls.seconds.end());
        }
        for (WaitedCalls& calls : rank.calls) calls.seconds.resize(all);
    }
}

Result<WaitVerdict> find_least_waiting(const Look& before, std::span<const Look> looks,
                                       const WaitLimits& limits) {
    if (auto good = check_look(before); !good) return good.error();
    Look pooled;
    std::vector<WaitVerdict> single;
    WaitLimits loose = limits;
    loose.confidence = 0.5;
    for (const Look& look : looks) {
        if (auto good = check_look(look); !good) return good.error();
        add_look(pooled, look);
        single.push_back(compare(before, look, loose));
    }
    WaitVerdict verdict = compare(before, pooled, limits);
    const auto all_say = [&](auto says) {
        const auto count = std::ranges::count_if(single, says);
        return single.size() >= limits.looks && count == std::ssize(single);
    };
    std::erase_if(verdict.ranks, [&](const SlowRank& slow) {
        return !all_say([&](const WaitVerdict& one) {
            return is_in(one.ranks, [&](const SlowRank& r) { return r.rank == slow.rank; });
        });
    });
    std::erase_if(verdict.groups, [&](const SlowGroup& slow) {
        return !all_say([&](const WaitVerdict& one) {
            return is_in(one.groups, [&](const SlowGroup& g) {
                return g.group == slow.group && g.ranks == slow.ranks;
            });
        });
    });
    return verdict;
}

}  // namespace arena::slowdown
