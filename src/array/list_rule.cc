// SPDX-License-Identifier: GPL-2.0-or-later
#include "array/list_rule.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace arena::array {

namespace {

constexpr std::int64_t last_key = std::numeric_limits<std::int64_t>::max();

}  // namespace

Ranks list_ranks(const Instance& instance, Prefer prefer) {
    std::vector<std::int64_t> total(static_cast<std::size_t>(instance.jobs), 0);
    for (const Block& block : instance.blocks)
        total[static_cast<std::size_t>(block.job)] += block.hold;
    std::vector<int> sorted(total.size() * 2);
    std::iota(sorted.begin(), sorted.end(), 0);
    const auto key = [&](int item) {
        const bool preferred = (item % 2 == 1) == (prefer == Prefer::backward);
        return std::tuple(!preferred, -total[static_cast<std::size_t>(item / 2)], item);
    };
    std::sort(sorted.begin(), sorted.end(), [&](int a, int b) { return key(a) < key(b); });
    Ranks ranks(sorted.size());
    for (std::size_t i = 0; i < sorted.size(); ++i)
        ranks[static_cast<std::size_t>(sorted[i])] = static_cast<int>(i);
    return ranks;
}

ListRule::ListRule(const Instance& instance, const Rules& rules)
    : instance_(&instance),
      fresh_(instance, rules),
      line_(fresh_),
      keys_(static_cast<std::size_t>(instance.jobs)),
      device_(keys_.size()) {
    order_.reserve(instance.blocks.size());
}

std::int64_t ListRule::key(int job, const Ranks& ranks) const {
    if (!line_.may_go(job)) return last_key;
    const auto item = static_cast<std::size_t>(2 * job + line_.next(job).backward);
    return (std::int64_t{line_.earliest_start(job)} << 20) + ranks[item];
}

bool ListRule::run(const Ranks& ranks) {
    static_assert(2 * most_jobs < 1 << 20);
    line_ = fresh_;
    order_.clear();
    const auto place = [&](std::size_t j) {
        const int job = static_cast<int>(j);
        const bool has = line_.has_next(job);
        device_[j] = has ? line_.next(job).device : -1;
        keys_[j] = has ? key(job, ranks) : last_key;
    };
    for (std::size_t j = 0; j < keys_.size(); ++j) place(j);
    while (order_.size() < instance_->blocks.size()) {
        const auto least = std::min_element(keys_.begin(), keys_.end());
        if (*least == last_key) return false;
        const auto job = static_cast<std::size_t>(least - keys_.begin());
        const int device = device_[job];
        line_.append(static_cast<int>(job));
        order_.push_back(static_cast<int>(job));
        for (std::size_t j = 0; j < keys_.size(); ++j)
            if (device_[j] == device) place(j);
    }
    return true;
}

Order list_order(const Instance& instance, const Rules& rules, Prefer prefer) {
    ListRule rule(instance, rules);
    return rule.run(list_ranks(instance, prefer)) ? rule.order() : one_by_one(instance);
}

}  // namespace arena::array
