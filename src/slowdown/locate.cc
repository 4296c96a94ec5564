// SPDX-License-Identifier: GPL-2.0-or-later
#include "slowdown/locate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/statistics.h"

namespace arena::slowdown {

namespace {

using Link = std::pair<int, int>;
constexpr std::string_view no_name = "untyped ";
/// What was measured of each thing, several times or once.
template <typename Key>
using Times = std::map<Key, std::vector<double>>;

struct Round {
    Times<int> gpus;
    Times<Link> links;
    std::map<int, std::string> types;
};

bool is_time(double ms) { return std::isfinite(ms) && ms > 0; }

Error no_time(const std::string& where) {
    return usage_error("its time is no number above 0: nothing was measured", where);
}

std::string words(const Link& link) {
    return "link " + std::to_string(link.first) + ">" + std::to_string(link.second);
}

Result<Round> collect(const CheckRound& from) {
    Round round;
    for (const GpuCheck& check : from.gpus) {
        const std::string where = "GPU of rank " + std::to_string(check.rank);
        if (!is_time(check.time_ms)) return no_time(where);
        const auto [type, fresh] = round.types.emplace(check.rank, check.gpu_type);
        if (type->second != check.gpu_type) return usage_error("it has two types", where);
        round.gpus[check.rank].push_back(check.time_ms);
    }
    for (const LinkCheck& check : from.links) {
        const Link link{check.from, check.to};
        if (!is_time(check.time_ms)) return no_time(words(link));
        round.links[link].push_back(check.time_ms);
    }
    return round;
}

void gather_by_type(const Round& round, std::map<std::string, std::vector<double>>& into) {
    for (const auto& [rank, times] : round.gpus)
        into[round.types.at(rank)].push_back(median_of(times));
}

/// Of each type that was measured now.
std::map<std::string, double> usual_times(const Round& baseline, const Round& now) {
    std::map<std::string, std::vector<double>> before, after;
    gather_by_type(baseline, before);
    gather_by_type(now, after);
    std::map<std::string, double> usual;
    for (const auto& [type, times] : after) {
        const double current = median_of(times);
        const auto known = before.find(type);
        usual[type] = known == before.end() ? current : std::min(current, median_of(known->second));
    }
    return usual;
}

template <typename Key>
std::optional<double> baseline_of(const Times<Key>& baseline, const Key& key) {
    const auto known = baseline.find(key);
    if (known == baseline.end()) return std::nullopt;
    return median_of(known->second);
}

Status check_types(const Round& baseline, const Round& now) {
    for (const auto& [rank, type] : now.types) {
        const auto before = baseline.types.find(rank);
        if (before != baseline.types.end() && before->second != type)
            return usage_error("it has two types", "GPU of rank " + std::to_string(rank));
    }
    return Done{};
}

/// GPUs without a type are told apart by their baselines: those of one model lie close together.
void tell_types(Round& baseline, Round& now) {
    constexpr double another_model = 1.15;
    std::vector<std::pair<double, int>> untyped;
    for (const auto& [rank, times] : baseline.gpus)
        if (baseline.types[rank].empty()) untyped.emplace_back(median_of(times), rank);
    std::sort(untyped.begin(), untyped.end());
    int model = 0;
    for (std::size_t i = 0; i < untyped.size(); ++i) {
        const auto [time, rank] = untyped[i];
        if (i > 0 && time > another_model * untyped[i - 1].first) ++model;
        baseline.types[rank] = std::string(no_name) + std::to_string(model);
        if (now.types.contains(rank)) now.types[rank] = baseline.types[rank];
    }
}

/// By type; none of those whose GPUs go each its own way.
std::map<std::string, double> common_factors(const Round& baseline, const Round& now, double limit,
                                             Verdict& verdict) {
    constexpr std::size_t fewest = 4;
    std::map<std::string, std::vector<double>> ratios;
    for (const auto& [rank, times] : now.gpus)
        if (const auto own = baseline_of(baseline.gpus, rank))
            ratios[now.types.at(rank)].push_back(median_of(times) / *own);
    std::map<std::string, double> common;
    for (const auto& [type, of_type] : ratios) {
        const double middle = median_of(of_type);
        const auto like_it = std::ranges::count_if(of_type, [&](double ratio) {
            return ratio > 1 + (middle - 1) / 2 && ratio < limit * middle;
        });
        const bool nearly_all = 8 * static_cast<std::size_t>(like_it) >= 7 * of_type.size();
        if (of_type.size() < fewest || !nearly_all || middle <= std::sqrt(limit)) continue;
        common[type] = middle;
        verdict.common.push_back({.gpu_type = type.starts_with(no_name) ? "" : type,
                                  .gpus = static_cast<int>(of_type.size()),
                                  .factor = middle});
    }
    return common;
}

std::set<int> judge_gpus(const Round& baseline, const Round& now, double limit, Verdict& verdict) {
    std::set<int> slow;
    const auto usual = usual_times(baseline, now);
    const auto common = common_factors(baseline, now, limit, verdict);
    for (const auto& [rank, times] : now.gpus) {
        const auto own = baseline_of(baseline.gpus, rank);
        if (!own) {
            verdict.gpus_without_baseline.push_back(rank);
            continue;
        }
        const double time = median_of(times), of_type = usual.at(now.types.at(rank));
        const auto shared = common.find(now.types.at(rank));
        const double as_all = shared == common.end() ? 1 : shared->second;
        if (time <= limit * as_all * std::max(*own, of_type)) continue;
        slow.insert(rank);
        verdict.gpus.push_back({rank, time / of_type});
    }
    return slow;
}

void judge_links(const Round& baseline, const Round& now, double limit,
                 const std::set<int>& slow_gpus, Verdict& verdict) {
    for (const auto& [link, times] : now.links) {
        const auto [from, to] = link;
        const auto own = baseline_of(baseline.links, link);
        if (!own) {
            verdict.links_without_baseline.push_back({from, to});
            continue;
        }
        const double factor = median_of(times) / *own;
        if (factor > limit && !slow_gpus.contains(from) && !slow_gpus.contains(to))
            verdict.links.push_back({from, to, factor});
    }
}

// ---- noise -------------------------------------------------------------------------------------

/// Of the logarithms of n normal samples, in standard deviations: the mean length of the shortest
/// interval with more than half of them (400,000 draws each; the last is about right beyond).
double usual_shorth(std::size_t n) {
    constexpr std::array<double, 8> lengths{1.128, 0.454, 0.992, 0.648, 0.990, 0.759, 1.009, 0.833};
    return lengths[std::min(n, lengths.size() + 1) - 2];
}

/// Standard deviation of the logarithm of one measurement; 0: nothing was measured twice.
template <typename Key>
double noise_of(const Times<Key>& rounds) {
    double sum = 0;
    std::size_t things = 0;
    for (const auto& [key, times] : rounds) {
        if (times.size() < 2) continue;
        std::vector<double> logs;
        for (const double time : times) logs.push_back(std::log(time));
        std::ranges::sort(logs);
        const std::size_t within = logs.size() / 2;
        double least = logs.back() - logs.front();
        for (std::size_t i = 0; i + within < logs.size(); ++i)
            least = std::min(least, logs[i + within] - logs[i]);
        sum += least / usual_shorth(logs.size());
        ++things;
    }
    return things == 0 ? 0 : sum / static_cast<double>(things);
}

/// Of the median of as many samples as most things have, in variances of one.
template <typename Key>
double variance_of_median(const Times<Key>& rounds) {
    std::size_t n = 0;
    for (const auto& [key, times] : rounds) n = std::max(n, times.size());
    return n <= 2 ? 1.0 / static_cast<double>(std::max<std::size_t>(n, 1))
                  : std::numbers::pi / 2 / static_cast<double>(n);
}

template <typename Key>
double beyond(const Times<Key>& baseline, const Times<Key>& now, double least) {
    constexpr double standard_errors = 3;
    const double error =
        noise_of(baseline) * std::sqrt(variance_of_median(baseline) + variance_of_median(now));
    return std::max(least, std::exp(standard_errors * error));
}

template <typename T>
void slowest_first(std::vector<T>& all) {
    std::stable_sort(all.begin(), all.end(),
                     [](const T& a, const T& b) { return a.factor > b.factor; });
}

}  // namespace

Result<Verdict> locate(const CheckRound& baseline, const CheckRound& now,
                       const LocateLimits& limits) {
    auto before = collect(baseline), after = collect(now);
    if (!before) return before.error();
    if (!after) return after.error();
    if (const auto agree = check_types(*before, *after); !agree) return agree.error();
    tell_types(*before, *after);
    Verdict verdict;
    const auto slow = judge_gpus(*before, *after, limits.gpu, verdict);
    judge_links(*before, *after, limits.link, slow, verdict);
    slowest_first(verdict.gpus);
    slowest_first(verdict.links);
    return verdict;
}

LocateLimits beyond_noise(const CheckRound& baseline, const CheckRound& now,
                          const LocateLimits& least) {
    const auto before = collect(baseline), after = collect(now);
    if (!before || !after) return least;
    return {.gpu = beyond(before->gpus, after->gpus, least.gpu),
            .link = beyond(before->links, after->links, least.link)};
}

}  // namespace arena::slowdown
