// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/agent/rank_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "base/statistics.h"

namespace arena::watch {
namespace {

constexpr double time_for_timings_s = 1, longest_s = 900;
constexpr std::size_t most_timings = 200'000, most_groups = 1024;

std::string kind_of(Op op) {
    const auto index = static_cast<std::size_t>(op);
    return std::string(index < op_names.size() ? op_names[index] : "other");
}

}  // namespace

void RankProfile::complete(double now_s) {
    if (complete_s_ < 0) complete_s_ = now_s;
}

void RankProfile::add(const Record& timing, double now_s) {
    if (timings_.size() == most_timings) return complete(now_s);
    timings_.push_back(timing);
}

void RankProfile::timed_since(std::uint64_t time_ns) {
    if (since_ns_ == 0) since_ns_ = time_ns;
}

/// The first begins the first that is whole.
void RankProfile::end_iteration(std::uint64_t time_ns, double now_s) {
    if (complete_s_ >= 0 || since_ns_ == 0 || time_ns < since_ns_) return;
    ends_ns_.push_back(time_ns);
    if (static_cast<std::int64_t>(ends_ns_.size()) > wanted_) complete(now_s);
}

std::optional<GroupTimes> RankProfile::result(double now_s) {
    const bool is_over = complete_s_ >= 0 ? now_s - complete_s_ >= time_for_timings_s
                                          : now_s - begun_s_ >= longest_s;
    if (!is_over) return std::nullopt;
    return sum_up();
}

GroupTimes RankProfile::sum_up() const {
    struct Sums {
        std::vector<double> seconds, bytes;
    };
    const std::size_t most = std::min(static_cast<std::size_t>(wanted_), most_profiled);
    const std::size_t count = ends_ns_.empty() ? 0 : std::min(ends_ns_.size() - 1, most);
    std::map<std::tuple<std::uint64_t, Op, std::int32_t>, Sums> groups;
    for (const Record& timing : timings_) {
        const auto next = std::upper_bound(ends_ns_.begin(), ends_ns_.end(), timing.time_ns);
        if (next == ends_ns_.begin()) continue;
        const auto index = static_cast<std::size_t>(next - ends_ns_.begin()) - 1;
        if (index >= count) continue;
        Sums& sums = groups[{timing.comm, timing.op, has_peer(timing.op) ? timing.aux : -1}];
        sums.seconds.resize(count);
        sums.bytes.resize(count);
        sums.seconds[index] += static_cast<double>(timing.duration_ns) * 1e-9;
        sums.bytes[index] += static_cast<double>(timing.bytes);
    }
    GroupTimes times;
    for (std::size_t i = 0; i < count; ++i)
        times.step_s.push_back(static_cast<double>(ends_ns_[i + 1] - ends_ns_[i]) * 1e-9);
    for (auto& [key, sums] : groups)
        times.groups.push_back({.group = fmt::format("{:016x}", std::get<0>(key)),
                                .kind = kind_of(std::get<1>(key)),
                                .bytes = static_cast<std::int64_t>(median_of(sums.bytes)),
                                .peer = std::max(std::get<2>(key), -1),
                                .seconds = std::move(sums.seconds)});
    std::stable_sort(times.groups.begin(), times.groups.end(), [](const auto& a, const auto& b) {
        return median_of(a.seconds) > median_of(b.seconds);
    });
    if (times.groups.size() > most_groups) times.groups.resize(most_groups);
    return times;
}

}  // namespace arena::watch
