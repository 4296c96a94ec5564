// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/chief/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "base/statistics.h"

namespace arena::watch {
namespace {

using slowdown::CheckRound;
using slowdown::Pass;
using slowdown::Transfer;

constexpr std::size_t all_links_up_to = 4;  ///< ranks
constexpr double link_limit = 1.20;
constexpr double of_excess = 0.25;   ///< less is no cause beside what has it all
constexpr double beyond_gpus = 1.5;  ///< times what a slow GPU does to the steps at the most

bool is_time(double ms) { return std::isfinite(ms) && ms > 0; }

/// Passes of groups that share no rank run together.
void run_together(std::vector<Pass>& all, const std::vector<Pass>& more) {
    if (all.size() < more.size()) all.resize(more.size());
    for (std::size_t i = 0; i < more.size(); ++i)
        all[i].insert(all[i].end(), more[i].begin(), more[i].end());
}

/// Both ways: activations go forward, their gradients back.
std::vector<Pass> chain_passes(std::span<const int> order) {
    std::vector<Pass> passes(4);
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
        passes[i % 2].push_back({order[i], order[i + 1]});
        passes[2 + i % 2].push_back({order[i + 1], order[i]});
    }
    return passes;
}

/// A tournament: each rank meets each other once, and once more the other way.
std::vector<Pass> all_links(std::size_t ranks) {
    const std::size_t seats = ranks + ranks % 2;
    std::vector<Pass> passes;
    for (std::size_t round = 0; round + 1 < seats; ++round) {
        Pass there, back;
        for (std::size_t i = 0; i < seats / 2; ++i) {
            const auto seat = [&](std::size_t s) {
                return static_cast<int>(s == 0 ? 0 : 1 + (s - 1 + round) % (seats - 1));
            };
            const int a = seat(i), b = seat(seats - 1 - i);
            if (std::max(a, b) >= static_cast<int>(ranks)) continue;
            there.push_back({a, b});
            back.push_back({b, a});
        }
        passes.push_back(std::move(there));
        passes.push_back(std::move(back));
    }
    return passes;
}

/// Ranks at places first, first + stride, ...
std::vector<int> ranks_at(const Placement& placement, std::int64_t first, std::int64_t stride,
                          std::int64_t count) {
    std::vector<int> ranks;
    for (std::int64_t i = 0; i < count; ++i)
        ranks.push_back(static_cast<int>(placement[static_cast<std::size_t>(first + i * stride)]));
    return ranks;
}

void append(std::vector<Pass>& all, std::vector<Pass> more) {
    std::erase_if(more, [](const Pass& pass) { return pass.empty(); });
    std::ranges::move(more, std::back_inserter(all));
}

/// Where no pre-check was: the usual of each type, of two the faster; one alone has nothing.
CheckRound compared_with_each_other(const CheckRound& now) {
    std::map<std::string, std::map<int, std::vector<double>>> types;
    for (const slowdown::GpuCheck& gpu : now.gpus)
        types[gpu.gpu_type][gpu.rank].push_back(gpu.time_ms);
    CheckRound baseline;
    for (const auto& [type, ranks] : types) {
        std::vector<double> times;
        for (const auto& [rank, own] : ranks) {
            std::vector<double> sorted = own;
            std::ranges::sort(sorted);
            times.push_back(median(sorted));
        }
        std::ranges::sort(times);
        if (times.size() < 2) continue;
        for (const auto& [rank, own] : ranks)
            baseline.gpus.push_back({rank, times[(times.size() - 1) / 2], type});
    }
    return baseline;
}

/// As if no GPU were slow.
Result<slowdown::Verdict> links_alone(const CheckRound& baseline, const CheckRound& now,
                                      slowdown::LocateLimits limits) {
    limits.gpu = std::numeric_limits<double>::infinity();
    return slowdown::locate(baseline, now, limits);
}

/// By how much the GPU is slower that is slower by least, beside the one that is by most: 0 to 1,
/// of their excesses. Near 1 it is what they have in common: other work on the machine.
double load_of(const CheckRound& baseline, const CheckRound& now) {
    std::map<int, std::vector<double>> before, after;
    for (const slowdown::GpuCheck& gpu : baseline.gpus) before[gpu.rank].push_back(gpu.time_ms);
    for (const slowdown::GpuCheck& gpu : now.gpus) after[gpu.rank].push_back(gpu.time_ms);
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (const auto& [rank, times] : after) {
        const auto own = before.find(rank);
        if (own == before.end()) continue;
        const double excess = median_of(times) / median_of(own->second) - 1;
        least = std::min(least, excess);
        most = std::max(most, excess);
    }
    return after.size() < 2 || most <= 0 ? 0 : std::max(0.0, least / most);
}

/// Either steps are slower than any GPU can make them, or all GPUs are a little slower and a link
/// is by far.
bool is_links_doing(const slowdown::Verdict& with_gpus, const slowdown::Verdict& links,
                    double step_factor, double load) {
    if (links.links.empty()) return false;
    const double gpu = with_gpus.gpus.front().factor, link = links.links.front().factor;
    const bool beyond = step_factor > beyond_gpus * gpu && link > beyond_gpus * gpu;
    return beyond || (load >= of_excess && gpu - 1 < of_excess * (link - 1));
}

}  // namespace

std::vector<Pass> links_in_use(const TrainerPlan& plan, const Placement& placement) {
    if (placement.size() <= all_links_up_to) return all_links(placement.size());
    std::vector<Pass> rings, chains, shards;
    for (std::int64_t i = 0; i < plan.pp * plan.tp; ++i)
        run_together(rings,
                     slowdown::ring_passes(ranks_at(placement, i, plan.pp * plan.tp, plan.dp)));
    for (std::int64_t d = 0; d < plan.dp; ++d)
        for (std::int64_t t = 0; t < plan.tp; ++t)
            run_together(chains, chain_passes(ranks_at(placement, d * plan.pp * plan.tp + t,
                                                       plan.tp, plan.pp)));
    for (std::int64_t i = 0; i < plan.dp * plan.pp; ++i)
        run_together(shards, slowdown::ring_passes(ranks_at(placement, i * plan.tp, 1, plan.tp)));
    std::vector<Pass> passes;
    append(passes, std::move(rings));
    append(passes, std::move(chains));
    append(passes, std::move(shards));
    return passes;
}

std::vector<Pass> ring_links(std::span<const std::vector<int>> groups) {
    std::vector<Transfer> links;
    for (const std::vector<int>& group : groups)
        for (const Pass& pass : slowdown::ring_passes(group))
            links.insert(links.end(), pass.begin(), pass.end());
    return passes_of(links);
}

std::vector<Pass> passes_of(std::span<const Transfer> links) {
    std::vector<Pass> passes;
    std::vector<std::set<int>> busy;
    std::set<Transfer> seen;
    for (const Transfer& link : links) {
        if (link.from == link.to || !seen.insert(link).second) continue;
        std::size_t at = 0;
        while (at < passes.size() && (busy[at].contains(link.from) || busy[at].contains(link.to)))
            ++at;
        if (at == passes.size()) {
            passes.emplace_back();
            busy.emplace_back();
        }
        passes[at].push_back(link);
        busy[at].insert({link.from, link.to});
    }
    return passes;
}

CheckWord check_word(std::int64_t id, bool gpus, const std::vector<Pass>& passes) {
    constexpr std::string_view of_links = " links ";
    CheckWord word{fmt::format("check {}{}", id, gpus ? " gpus" : "")};
    std::string links;
    for (const Pass& pass : passes) {
        bool is_first = true;
        for (const Transfer& link : pass) {
            const char* before = links.empty() ? "" : is_first ? "|" : ",";
            const std::string next = fmt::format("{}{}>{}", before, link.from, link.to);
            if (word.text.size() + of_links.size() + links.size() + next.size() > longest_check) {
                ++word.left_out;
                continue;
            }
            links += next;
            is_first = false;
        }
    }
    if (!links.empty()) word.text.append(of_links).append(links);
    return word;
}

Result<CheckRound> to_round(const Checked& checked, std::int64_t ranks) {
    const auto is_rank = [&](std::int64_t rank) { return rank >= 0 && rank < ranks; };
    CheckRound round;
    for (const Checked::Gpu& gpu : checked.gpus) {
        if (!is_rank(gpu.rank)) return usage_error(fmt::format("there is no rank {}", gpu.rank));
        if (!is_time(gpu.ms)) return usage_error("a GPU's time is no number above 0");
        round.gpus.push_back({static_cast<int>(gpu.rank), gpu.ms, gpu.type});
    }
    for (const Checked::Link& link : checked.links) {
        if (!is_rank(link.from) || !is_rank(link.to) || link.from == link.to)
            return usage_error(fmt::format("there is no link {}>{}", link.from, link.to));
        if (!is_time(link.ms)) return usage_error("a link's time is no number above 0");
        if (link.latency_ms != 0 && !is_time(link.latency_ms))
            return usage_error("a link's latency is no number from 0 on");
        round.links.push_back(
            {static_cast<int>(link.from), static_cast<int>(link.to), link.ms, link.latency_ms});
    }
    if (round.gpus.empty() && round.links.empty()) return usage_error("nothing was measured");
    return round;
}

void Rounds::add(const CheckRound& round, double at_s) {
    all_.gpus.insert(all_.gpus.end(), round.gpus.begin(), round.gpus.end());
    all_.links.insert(all_.links.end(), round.links.begin(), round.links.end());
    ends_.push_back({at_s, all_.gpus.size(), all_.links.size()});
}

void Rounds::keep_before(double at_s) {
    while (!ends_.empty() && ends_.back().at_s >= at_s) ends_.pop_back();
    const End last = ends_.empty() ? End{} : ends_.back();
    all_.gpus.resize(last.gpus);
    all_.links.resize(last.links);
}

slowdown::LocateLimits limits_of(const CheckRound& baseline, const CheckRound& now,
                                 double threshold) {
    return slowdown::beyond_noise(baseline, now,
                                  {.gpu = threshold, .link = std::max(link_limit, threshold)});
}

Result<Judged> judge(const CheckRound& baseline, const CheckRound& now, double threshold,
                     double step_factor) {
    const bool has_baseline = !baseline.gpus.empty() || !baseline.links.empty();
    const auto limits = limits_of(baseline, now, threshold);
    auto verdict =
        slowdown::locate(has_baseline ? baseline : compared_with_each_other(now), now, limits);
    if (!verdict) return verdict.error();
    if (has_baseline && !verdict->gpus.empty()) {
        auto of_links = links_alone(baseline, now, limits);
        if (of_links && is_links_doing(*verdict, *of_links, step_factor, load_of(baseline, now)))
            verdict = std::move(of_links);
    }
    return Judged{std::move(*verdict), has_baseline, limits};
}

bool is_sharp(double limit, double threshold) { return limit <= std::max(clear_factor, threshold); }

bool is_clear(const slowdown::Verdict& verdict) {
    const auto clear = [](const auto& one) { return one.factor >= clear_factor; };
    return std::ranges::all_of(verdict.gpus, clear) && std::ranges::all_of(verdict.links, clear);
}

slowdown::Verdict in_both(const slowdown::Verdict& now, const slowdown::Verdict& before) {
    slowdown::Verdict both = now;
    std::erase_if(both.gpus, [&](const slowdown::SlowGpu& gpu) {
        return std::ranges::none_of(before.gpus,
                                    [&](const auto& one) { return one.rank == gpu.rank; });
    });
    std::erase_if(both.links, [&](const slowdown::SlowLink& link) {
        return std::ranges::none_of(before.links, [&](const auto& one) {
            return one.from == link.from && one.to == link.to;
        });
    });
    return both;
}

}  // namespace arena::watch
