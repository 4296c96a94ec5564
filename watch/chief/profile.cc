// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/chief/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/statistics.h"
#include "slowdown/suspects.h"

namespace arena::watch {

void GroupProfile::add(const GroupTimes& times) {
    if (!ranks_.insert(times.rank).second || members_ >= most_groups) return;
    slowdown::RankWaits waits{static_cast<int>(times.rank), times.step_s, {}};
    for (const GroupTimes::One& one : times.groups) {
        Group& group = groups_[{one.group, one.kind}];
        group.kind = one.kind;
        group.bytes = std::max(group.bytes, one.bytes);
        const double seconds = median_of(one.seconds);
        const auto known = group.seconds.emplace(times.rank, seconds).first;
        ++members_;
        known->second = std::max(known->second, seconds);
        waits.calls.push_back({one.group, static_cast<int>(one.peer), one.seconds});
    }
    const auto is_time = [](double step_s) { return step_s > 0; };
    if (!times.step_s.empty() && std::ranges::all_of(times.step_s, is_time))
        look_.push_back(std::move(waits));
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
