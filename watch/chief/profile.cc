// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/chief/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "slowdown/suspects.h"

namespace arena::watch {

void GroupProfile::add(const GroupTimes& times) {
    ranks_.insert(times.rank);
    for (const GroupTimes::One& one : times.groups) {
        if (!std::isfinite(one.seconds) || one.seconds < 0 || members_ >= most_groups) continue;
        Group& group = groups_[{one.group, one.kind}];
        group.kind = one.kind;
        group.bytes = std::max(group.bytes, one.bytes);
        const auto [seconds, is_new] = group.seconds.emplace(times.rank, one.seconds);
        members_ += is_new;
        seconds->second = std::max(seconds->second, one.seconds);
    }
}

std::vector<GroupProfile::Suspicious> GroupProfile::suspicious(double threshold) const {
    std::vector<slowdown::GroupTime> told;
    std::vector<Suspicious> all;
    for (const auto& [name, group] : groups_) {
        if (group.seconds.size() < 2) continue;
        slowdown::GroupTime& one = told.emplace_back();
        one.group = std::to_string(all.size());
        one.kind =
            fmt::format("{} of {} bytes by {}", group.kind, group.bytes, group.seconds.size());
        Suspicious& suspicious = all.emplace_back();
        suspicious.group = name.first;
        for (const auto& [rank, seconds] : group.seconds) {
            one.member_s.push_back(seconds);
            suspicious.ranks.push_back(static_cast<int>(rank));
        }
    }
    const auto found = slowdown::find_suspects(told, threshold);
    if (!found) return {};
    std::vector<Suspicious> suspects;
    for (const slowdown::Suspect& suspect : *found) {
        Suspicious& one = suspects.emplace_back(all[std::stoul(suspect.group)]);
        one.factor = suspect.factor;
        one.is_alone = suspect.is_alone;
    }
    std::ranges::stable_sort(suspects, std::greater<>(), &Suspicious::factor);
    return suspects;
}

}  // namespace arena::watch
