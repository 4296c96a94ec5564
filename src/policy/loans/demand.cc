// SPDX-License-Identifier: GPL-2.0-or-later
// See demand.h.
#include "policy/loans/demand.h"

#include <algorithm>
#include <cmath>

namespace arena {
namespace {

constexpr double day_s = 86400;

}  // namespace

void DemandHistory::add(double time_s, double gpus) {
    now_s_ = time_s;
    if (!samples_.empty() && samples_.back().first == time_s)
        samples_.back().second = gpus;
    else if (samples_.empty() || samples_.back().second != gpus)
        samples_.emplace_back(time_s, gpus);
    while (samples_.size() > 1 && samples_[1].first < time_s - 2 * day_s) samples_.pop_front();
}

double DemandHistory::at(double time_s) const {
    const auto after = std::upper_bound(samples_.begin(), samples_.end(), time_s,
                                        [](double t, const auto& s) { return t < s.first; });
    return after == samples_.begin() ? samples_.front().second : std::prev(after)->second;
}

double DemandHistory::most_between(double from_s, double to_s) const {
    double most = at(from_s);
    for (const auto& [time_s, gpus] : samples_)
        if (time_s > from_s && time_s <= to_s) most = std::max(most, gpus);
    return most;
}

double DemandHistory::peak(double horizon_s) const {
    if (samples_.empty()) return 0;
    const double now = samples_.back().second;
    double rise = std::max(0.0, now - at(now_s_ - horizon_s));
    const double then_s = now_s_ - day_s;
    if (samples_.front().first <= then_s)
        rise = std::max(rise, most_between(then_s, then_s + horizon_s) - at(then_s));
    return now + rise;
}

std::int64_t spare_servers(const LendingPool& pool, const LendingRules& rules) {
    const auto gpus = static_cast<double>(pool.gpus_per_server);
    const double headroom = std::max(rules.headroom_percent / 100 * pool.peak_gpus,
                                     static_cast<double>(rules.headroom_nodes) * gpus);
    const double left = static_cast<double>(pool.servers) * gpus - pool.peak_gpus - headroom;
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(left / gpus)), 0,
                                    pool.servers);
}

LendingStep Lender::decide(const LendingPool& pool, bool is_tick) {
    const std::int64_t spare = spare_servers(pool, rules_);
    if (spare < pool.lent) {
        offered_.clear();
        return {.lend = 0, .reclaim = pool.lent - spare};
    }
    if (!is_tick) return {};
    offered_.push_back(spare - pool.lent);
    if (offered_.size() < static_cast<std::size_t>(rules_.ticks_to_lend)) return {};
    const std::int64_t lend = *std::min_element(offered_.begin(), offered_.end());
    for (std::int64_t& left : offered_) left -= lend;
    offered_.pop_front();
    return {.lend = lend, .reclaim = 0};
}

}  // namespace arena
