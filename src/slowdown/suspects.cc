// SPDX-License-Identifier: GPL-2.0-or-later
#include "slowdown/suspects.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/statistics.h"

namespace arena::slowdown {
namespace {

bool is_duration(double time_s) { return std::isfinite(time_s) && time_s >= 0; }

double slowest(const GroupTime& group) {
    return *std::max_element(group.member_s.begin(), group.member_s.end());
}

}  // namespace

Result<std::vector<Suspect>> find_suspects(std::span<const GroupTime> groups, double threshold) {
    std::map<std::pair<std::string, int>, std::vector<double>> clusters;
    for (const GroupTime& group : groups) {
        if (group.member_s.empty())
            return usage_error("a group without members has no time", group.group);
        if (!std::all_of(group.member_s.begin(), group.member_s.end(), is_duration))
            return usage_error("a member's time is finite and not below 0 seconds", group.group);
        clusters[{group.kind, group.stage}].push_back(slowest(group));
    }
    for (auto& [name, times] : clusters) std::sort(times.begin(), times.end());
    std::vector<Suspect> suspects;
    for (const GroupTime& group : groups) {
        const std::vector<double>& cluster = clusters.at({group.kind, group.stage});
        const double usual = median(cluster), own = slowest(group);
        if (cluster.size() == 1)
            suspects.push_back({group.group, 1, true});
        else if (own > threshold * usual && usual > 0)
            suspects.push_back({group.group, own / usual, false});
    }
    return suspects;
}

}  // namespace arena::slowdown
