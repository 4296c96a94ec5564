// SPDX-License-Identifier: GPL-2.0-or-later
#include "watch/chief/answers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/statistics.h"

namespace arena::watch {
namespace {

using slowdown::CheckRound;
using slowdown::LinkTable;
using slowdown::RoleGrid;
using slowdown::Strategy;

constexpr double usual_bytes_per_s = 1e9;  ///< of a link that nobody measured
constexpr double swap_itself_s = 0.5;      ///< new groups, beside the state that travels
constexpr double alike = 1.5;              ///< healthy links of one kind are within it
constexpr double slower = 1.2;

bool all_are_times(std::span<const double> times) {
    return std::ranges::all_of(times, [](double t) { return std::isfinite(t) && t > 0; });
}

// ---- S2 ----------------------------------------------------------------------------------------

/// Of each replica's slowest GPU; empty where one was not measured.
std::vector<double> products_of_replicas(const Situation& s) {
    std::map<int, std::vector<double>> by_rank;
    for (const slowdown::GpuCheck& gpu : s.checked.gpus) by_rank[gpu.rank].push_back(gpu.time_ms);
    if (std::ssize(by_rank) != s.trainer.ranks()) return {};
    std::vector<double> slowest(static_cast<std::size_t>(s.trainer.plan().dp));
    const std::size_t of_replica = by_rank.size() / slowest.size();
    for (std::size_t place = 0; place < by_rank.size(); ++place) {
        const auto rank = static_cast<int>(s.trainer.placement()[place]);
        double& product = slowest[place / of_replica];
        product = std::max(product, median_of(by_rank.at(rank)));
    }
    return slowest;
}

std::vector<double> times_of_replicas(const Situation& s) {
    const std::vector<double>& told = s.present.micro_batch_s;
    if (std::ssize(told) == s.trainer.plan().dp && all_are_times(told)) return told;
    const std::vector<double> products = products_of_replicas(s);
    if (products.empty() || s.healthy.step_s <= 0) return {};
    const double share =
        static_cast<double>(s.trainer.micro_batches()) / static_cast<double>(products.size());
    const auto times = slowdown::times_from_products(
        products, {.healthy = s.healthy.step_s,
                   .current = std::max(s.present.step_s, s.healthy.step_s),
                   .even_share = share});
    return times ? *times : std::vector<double>{};
}

Result<slowdown::Calibration> calibrated(const Situation& s, double value) {
    constexpr double apart = 0.05;  ///< values nearer to each other tell noise, not a slope
    std::vector<slowdown::Observed> seen{{value, s.present.step_s}};
    const StepLevel& healthy = s.healthy;
    if (healthy.step_s > 0 && healthy.micro_batch_s.size() == healthy.counts.size() &&
        !healthy.counts.empty() && all_are_times(healthy.micro_batch_s)) {
        const double before =
            slowdown::greatest_time(healthy.micro_batch_s, healthy.counts, s.trainer.plan().pp);
        if (std::abs(before - value) > apart * value) seen.push_back({before, healthy.step_s});
    }
    return slowdown::calibrate(seen);
}

// ---- S3 ----------------------------------------------------------------------------------------

using NodePair = std::pair<std::size_t, std::size_t>;

/// Of a link, in ms.
struct LinkTime {
    double check = 0;  ///< a transfer of a check, and back the smallest message
    double latency = 0;
    /// By what carries the bytes; the smallest message cannot take all of the time.
    [[nodiscard]] slowdown::LinkSpeed speed(double bytes) const {
        const double carrying = std::max(check - 2 * latency, 0.05 * check);
        return {bytes * 1000 / carrying, latency / 1000};
    }
};

/// The slowest of the links between two nodes, either way.
std::map<NodePair, LinkTime> times_between(const CheckRound& round, std::int64_t tp) {
    std::map<std::pair<int, int>, std::array<std::vector<double>, 2>> links;
    for (const slowdown::LinkCheck& link : round.links) {
        auto& [checks, latencies] = links[{link.from, link.to}];
        checks.push_back(link.time_ms);
        latencies.push_back(link.latency_ms);
    }
    std::map<NodePair, LinkTime> slowest;
    for (const auto& [link, times] : links) {
        const auto a = static_cast<std::size_t>(link.first / tp),
                   b = static_cast<std::size_t>(link.second / tp);
        if (a == b) continue;
        LinkTime& time = slowest[std::minmax(a, b)];
        if (const double check = median_of(times[0]); check > time.check)
            time = {check, median_of(times[1])};
    }
    return slowest;
}

/// Links of one host, and links between hosts, are alike each.
class UsualTimes {
  public:
    UsualTimes(const Trainer& trainer, const std::map<NodePair, LinkTime>& times)
        : trainer_(trainer) {
        std::vector<LinkTime> near, far, all;
        for (const auto& [pair, time] : times) {
            (is_near(pair) ? near : far).push_back(time);
            all.push_back(time);
        }
        near_ = usual(near.empty() ? all : near);
        far_ = usual(far.empty() ? all : far);
    }
    [[nodiscard]] const LinkTime& of(const NodePair& pair) const {
        return is_near(pair) ? near_ : far_;
    }

  private:
    static LinkTime usual(const std::vector<LinkTime>& times) {
        std::vector<double> checks, latencies;
        for (const LinkTime& time : times) {
            checks.push_back(time.check);
            latencies.push_back(time.latency);
        }
        return {median_of(std::move(checks)), median_of(std::move(latencies))};
    }
    [[nodiscard]] bool is_near(const NodePair& pair) const {
        const auto host = [&](std::size_t node) {
            return trainer_.place_of(static_cast<std::int64_t>(node) * trainer_.plan().tp).node;
        };
        return host(pair.first) == host(pair.second);
    }
    const Trainer& trainer_;
    LinkTime near_, far_;
};

double bytes_of_check(const Trainer& trainer) {
    return trainer.plan().link_bytes > 0 ? trainer.plan().link_bytes : usual_bytes_per_s / 1000;
}

struct Tables {
    LinkTable healthy, present;
    double usual = usual_bytes_per_s;  ///< bytes/s
};

/// Noise is no reason to move: healthy links count as their kind does, unless they are others by
/// far.
Tables tables_of(const Situation& s, std::size_t nodes) {
    const auto before = times_between(s.baseline, s.trainer.plan().tp);
    const auto now = times_between(s.checked, s.trainer.plan().tp);
    const UsualTimes usual(s.trainer, before.empty() ? now : before);
    const double bytes = bytes_of_check(s.trainer);
    Tables tables{LinkTable(nodes), LinkTable(nodes)};
    for (std::size_t a = 0; a < nodes; ++a)
        for (std::size_t b = a + 1; b < nodes; ++b) {
            const NodePair pair{a, b};
            const LinkTime& kind = usual.of(pair);
            const auto own = before.find(pair), checked = now.find(pair);
            const LinkTime known = own == before.end() ? kind : own->second;
            const bool is_alike =
                known.check <= alike * kind.check && kind.check <= alike * known.check;
            const LinkTime& healthy = is_alike ? kind : known;
            const bool is_slow =
                checked != now.end() && checked->second.check > slower * known.check;
            tables.healthy.set(a, b, healthy.speed(bytes));
            tables.present.set(a, b, (is_slow ? checked->second : healthy).speed(bytes));
            tables.usual = kind.speed(bytes).bandwidth;
        }
    return tables;
}

RoleGrid grid_of(const Trainer& trainer) {
    const TrainerPlan& plan = trainer.plan();
    return {.replicas = static_cast<std::size_t>(plan.dp),
            .stages = static_cast<std::size_t>(plan.pp),
            .gradient = plan.gradient_bytes,
            .activation = plan.activation_bytes,
            .micro_batches =
                static_cast<double>(trainer.micro_batches()) / static_cast<double>(plan.dp),
            .state = plan.state_bytes,
            .same_state_in_stage = plan.same_state_in_stage};
}

/// What computing costs, in healthy stages' times of a micro-batch: a pipeline fills through all
/// its stages, then goes at the pace of its slowest.
double compute_cost(const Situation& s, const slowdown::Placement& nodes,
                    const std::map<std::size_t, double>& factors) {
    const auto stages = static_cast<std::size_t>(s.trainer.plan().pp);
    double slowest = 0;
    for (std::size_t d = 0; d * stages < nodes.size(); ++d) {
        double sum = 0, worst = 0;
        for (std::size_t p = 0; p < stages; ++p) {
            const auto slow = factors.find(nodes[d * stages + p]);
            const double time = slow == factors.end() ? 1 : slow->second;
            sum += time;
            worst = std::max(worst, time);
        }
        slowest = std::max(slowest, sum + static_cast<double>(s.trainer.counts()[d] - 1) * worst);
    }
    return slowest;
}

/// Of what the step takes too long, the part that a lower cost takes away.
double gain_of(const Situation& s, double now, double then, double healthy) {
    const double excess = s.present.step_s - s.healthy.step_s;
    if (!(now > healthy) || !(now > then) || excess <= 0) return 0;
    return excess * std::min(1.0, (now - then) / (now - healthy));
}

struct Found {
    slowdown::Placement nodes;
    double gain_s = 0, moved = 0, bytes_per_s = usual_bytes_per_s;
};

std::optional<Found> for_links(const Situation& s, const slowdown::Placement& now) {
    if (s.checked.links.empty()) return std::nullopt;
    const RoleGrid grid = grid_of(s.trainer);
    const Tables tables = tables_of(s, now.size());
    const auto placed = slowdown::place_roles(grid, tables.present, now);
    if (!placed) return std::nullopt;
    const double cost = slowdown::communication_cost(grid, tables.present, now),
                 healthy = slowdown::communication_cost(grid, tables.healthy, now);
    return Found{placed->at, gain_of(s, cost, placed->cost, healthy), placed->moved, tables.usual};
}

std::optional<Found> for_gpus(const Situation& s, const slowdown::Placement& now) {
    std::map<std::size_t, double> factors;
    for (const slowdown::SlowGpu& gpu : s.slow_gpus) {
        double& factor = factors[static_cast<std::size_t>(gpu.rank / s.trainer.plan().tp)];
        factor = std::max(factor, gpu.factor);
    }
    std::vector<std::size_t> slow;
    for (const auto& [node, factor] : factors) slow.push_back(node);
    if (slow.empty()) return std::nullopt;
    const bool measured = !s.baseline.links.empty() || !s.checked.links.empty();
    const Tables tables = measured ? tables_of(s, now.size())
                                   : Tables{LinkTable(now.size(), usual_bytes_per_s),
                                            LinkTable(now.size(), usual_bytes_per_s)};
    const auto placed =
        slowdown::consolidate_slow_nodes(grid_of(s.trainer), tables.present, now, slow);
    if (!placed) return std::nullopt;
    const double gain = gain_of(s, compute_cost(s, now, factors),
                                compute_cost(s, placed->at, factors), compute_cost(s, now, {}));
    return Found{placed->at, gain, placed->moved, tables.usual};
}

double pause_of(const Situation& s, const Found& found, std::size_t swaps) {
    if (s.trainer.swap_s() > 0) return s.trainer.swap_s() * static_cast<double>(swaps);
    const auto& state = s.trainer.plan().state_bytes;
    const double bytes = state.empty() ? 0 : *std::ranges::max_element(state);
    return static_cast<double>(swaps) * (swap_itself_s + 2 * bytes / found.bytes_per_s);
}

/// Each node's ranks, in their order.
Placement of_ranks(const slowdown::Placement& nodes, std::int64_t tp) {
    Placement ranks;
    for (const std::size_t node : nodes)
        for (std::size_t shard = 0; shard < static_cast<std::size_t>(tp); ++shard)
            ranks.push_back(node * static_cast<std::size_t>(tp) + shard);
    return ranks;
}

}  // namespace

std::optional<BetterSplit> better_split(const Situation& s) {
    const TrainerPlan& plan = s.trainer.plan();
    const std::int64_t all = s.trainer.micro_batches();
    if (plan.dp < 2 || all <= plan.dp || s.present.step_s <= 0) return std::nullopt;
    const std::vector<double> times = times_of_replicas(s);
    if (times.empty()) return std::nullopt;
    const double value = slowdown::greatest_time(times, s.trainer.counts(), plan.pp);
    const auto model = calibrated(s, value);
    const auto split = slowdown::split_micro_batches(times, all, plan.pp);
    if (!model || !split || split->counts == s.trainer.counts()) return std::nullopt;
    // Stages keep as many micro-batches at once as there are, up to pp: memory was planned for
    // those.
    const std::int64_t planned = std::ranges::max(even_split(all, plan.dp));
    if (planned < plan.pp && std::ranges::max(split->counts) > planned) return std::nullopt;
    const double step_s = model->iteration(split->value);
    if (step_s > (1 - least_gain) * s.present.step_s) return std::nullopt;
    return BetterSplit{split->counts, step_s};
}

std::optional<BetterPlaces> better_places(const Situation& s, slowdown::Cause cause) {
    const slowdown::Placement now = s.trainer.node_placement();
    if (now.size() < 2 || now.size() > most_placed || s.present.step_s <= 0) return std::nullopt;
    const auto found = cause == slowdown::Cause::compute ? for_gpus(s, now) : for_links(s, now);
    if (!found || found->gain_s <= least_gain * s.present.step_s) return std::nullopt;
    BetterPlaces better{.placement = of_ranks(found->nodes, s.trainer.plan().tp),
                        .swaps = {},
                        .gain_s = found->gain_s,
                        .pause_s = 0};
    better.swaps = swaps_between(s.trainer.placement(), better.placement);
    if (better.swaps.empty() || better.swaps.size() > most_swaps) return std::nullopt;
    better.pause_s = pause_of(s, *found, better.swaps.size());
    return better;
}

std::vector<slowdown::Priced> prices(const Situation& s, slowdown::Cause cause) {
    std::vector<slowdown::Priced> all;
    if (slowdown::helps(Strategy::micro_batches, cause) && better_split(s))
        all.push_back({Strategy::micro_batches, s.present.step_s});
    if (slowdown::helps(Strategy::roles, cause))
        if (const auto places = better_places(s, cause))
            all.push_back({Strategy::roles, places->pause_s});
    if (s.trainer.plan().checkpoints)
        all.push_back({Strategy::restart, s.trainer.plan().restart_s > 0
                                              ? s.trainer.plan().restart_s
                                              : usual_restart_s});
    return slowdown::candidates(cause, all);
}

}  // namespace arena::watch
