// SPDX-License-Identifier: GPL-2.0-or-later
#include "slowdown/roles.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

namespace arena::slowdown {

LinkSpeed LinkTable::fastest() const {
    LinkSpeed best{0, nodes_ < 2 ? 0 : at(0, 1).latency};
    for (std::size_t a = 0; a < nodes_; ++a)
        for (std::size_t b = a + 1; b < nodes_; ++b) {
            best.bandwidth = std::max(best.bandwidth, at(a, b).bandwidth);
            best.latency = std::min(best.latency, at(a, b).latency);
        }
    return best;
}

namespace {

/// Costs are sums in another order: below it two are the same.
constexpr double tolerance = 1e-9;
bool below(double a, double b) { return a < b - tolerance * std::max(1.0, std::abs(b)); }

/// A placement and what each ring and chain of it costs.
struct Costed {
    Placement at;
    std::vector<double> rings = {};   ///< by stage
    std::vector<double> chains = {};  ///< by replica
};

struct Score {
    double cost = 0;
    double sum = 0;  ///< of all rings and chains: falls where one of two equal bottlenecks does
};
bool better(const Score& a, const Score& b) {
    return below(a.cost, b.cost) || (!below(b.cost, a.cost) && below(a.sum, b.sum));
}

/// What goes over one link in an iteration.
struct Traffic {
    double volume = 0, messages = 0;
    [[nodiscard]] double over(const LinkSpeed& link) const {
        return volume / link.bandwidth + messages * link.latency;
    }
};

class Coster {
  public:
    Coster(const RoleGrid& grid, const LinkTable& links) : grid_(grid), links_(links) {
        const auto d = static_cast<double>(grid.replicas);
        of_ring_ = {2 * (d - 1) / d * grid.gradient, 2 * (d - 1)};
        of_hop_ = {2 * grid.micro_batches * grid.activation, 2 * grid.micro_batches};
        const LinkSpeed fastest = links.fastest();
        if (fastest.bandwidth > 0) {
            least_ring_ = of_ring_.over(fastest);
            least_chain_ = of_hop_.over(fastest) * static_cast<double>(grid.stages - 1);
        }
    }

    [[nodiscard]] Costed costed(const Placement& at) const {
        Costed all{at};
        for (std::size_t p = 0; p < grid_.stages; ++p) all.rings.push_back(ring(at, p));
        for (std::size_t d = 0; d < grid_.replicas; ++d) all.chains.push_back(chain(at, d));
        return all;
    }
    [[nodiscard]] static Score score(const Costed& all) {
        Score score;
        for (const auto* costs : {&all.rings, &all.chains}) {
            score.cost += *std::max_element(costs->begin(), costs->end());
            score.sum += std::accumulate(costs->begin(), costs->end(), 0.0);
        }
        return score;
    }
    [[nodiscard]] double cost(const Placement& at) const { return score(costed(at)).cost; }

    void swap(Costed& all, std::size_t a, std::size_t b) const {
        std::swap(all.at[a], all.at[b]);
        for (const std::size_t i : {a, b}) {
            const std::size_t d = i / grid_.stages, p = i % grid_.stages;
            all.rings[p] = ring(all.at, p);
            all.chains[d] = chain(all.at, d);
        }
    }

    /// Places of which a swap must change one at least if the cost is to fall.
    [[nodiscard]] std::vector<std::size_t> critical(const Costed& all) const {
        std::vector<std::size_t> places;
        const auto ring = std::max_element(all.rings.begin(), all.rings.end());
        if (below(least_ring_, *ring)) {
            const auto p = static_cast<std::size_t>(ring - all.rings.begin());
            const std::size_t d = slowest_link(all.at, p);
            places = {place(d, p), place(next(d), p)};
        }
        const auto chain = std::max_element(all.chains.begin(), all.chains.end());
        const auto d = static_cast<std::size_t>(chain - all.chains.begin());
        for (std::size_t p = 0; below(least_chain_, *chain) && p < grid_.stages; ++p)
            places.push_back(place(d, p));
        std::sort(places.begin(), places.end());
        places.erase(std::unique(places.begin(), places.end()), places.end());
        return places;
    }

  private:
    [[nodiscard]] double link(const Placement& at, std::size_t d, std::size_t p) const {
        return of_ring_.over(links_.at(at[place(d, p)], at[place(next(d), p)]));
    }
    /// Of the ring of stage p, by the replica at its first end.
    [[nodiscard]] std::size_t slowest_link(const Placement& at, std::size_t p) const {
        std::size_t slowest = 0;
        for (std::size_t d = 1; d < grid_.replicas; ++d)
            if (link(at, d, p) > link(at, slowest, p)) slowest = d;
        return slowest;
    }
    [[nodiscard]] double ring(const Placement& at, std::size_t p) const {
        return grid_.replicas < 2 ? 0 : link(at, slowest_link(at, p), p);
    }
    [[nodiscard]] double chain(const Placement& at, std::size_t d) const {
        double sum = 0;
        for (std::size_t p = 0; p + 1 < grid_.stages; ++p)
            sum += of_hop_.over(links_.at(at[place(d, p)], at[place(d, p + 1)]));
        return sum;
    }
    [[nodiscard]] std::size_t place(std::size_t d, std::size_t p) const {
        return d * grid_.stages + p;
    }
    [[nodiscard]] std::size_t next(std::size_t d) const { return (d + 1) % grid_.replicas; }

    const RoleGrid& grid_;
    const LinkTable& links_;
    Traffic of_ring_, of_hop_;
    double least_ring_ = 0, least_chain_ = 0;  ///< if every link were the fastest
};

/// What nodes must receive that are not where they were.
class Moves {
  public:
    Moves(const RoleGrid& grid, const Placement& from)
        : grid_(grid), from_(from), stage_of_(from.size()) {
        for (std::size_t i = 0; i < from.size(); ++i) stage_of_[from[i]] = i % grid.stages;
    }
    [[nodiscard]] double of(std::size_t place, std::size_t node) const {
        const std::size_t stage = place % grid_.stages;
        const bool has_it =
            grid_.same_state_in_stage ? stage_of_[node] == stage : from_[place] == node;
        if (has_it) return 0;
        return grid_.state.empty() ? 1 : grid_.state[stage];
    }
    [[nodiscard]] double of(const Placement& to) const {
        double moved = 0;
        for (std::size_t i = 0; i < to.size(); ++i) moved += of(i, to[i]);
        return moved;
    }
    [[nodiscard]] std::size_t nodes(const Placement& to) const {
        std::size_t moved = 0;
        for (std::size_t i = 0; i < to.size(); ++i) moved += from_[i] != to[i];
        return moved;
    }

  private:
    const RoleGrid& grid_;
    const Placement& from_;
    std::vector<std::size_t> stage_of_;
};

/// Second swaps that are looked at after one another, about; what a second or two allow.
constexpr std::size_t most_pairs = 1'000'000;

class SwapSearch {
  public:
    SwapSearch(const Coster& coster, const Moves& moves, const Placement& start)
        : coster_(coster), moves_(moves), best_{start, coster.cost(start), 0} {}

    [[nodiscard]] PlacedRoles run() {
        double before = 0;
        do {
            before = best_.cost;
            const Costed from = coster_.costed(best_.at);
            look_around(from);
            descend(from);
        } while (below(best_.cost, before));
        return best_;
    }

  private:
    struct Swap {
        std::size_t a = 0, b = 0;
        Score score = {};
    };
    /// All single swaps, then all pairs; where those are too many, the ones that begin best.
    void look_around(Costed from) {
        std::vector<Swap> first = swaps(from);
        const std::size_t pairs = first.size() * first.size();
        if (pairs > most_pairs) {
            std::stable_sort(first.begin(), first.end(), [](const Swap& x, const Swap& y) {
                return std::pair(x.score.cost, x.score.sum) < std::pair(y.score.cost, y.score.sum);
            });
            first.resize(most_pairs / first.size() + 1);
        }
        for (const Swap& swap : first) {
            coster_.swap(from, swap.a, swap.b);
            swaps(from);
            coster_.swap(from, swap.a, swap.b);
        }
    }

    /// Swap by swap while the score falls: of many equal bottlenecks each swap takes one away, and
    /// only the last of them lowers the cost.
    void descend(Costed at) {
        for (Score now = Coster::score(at);;) {
            const std::vector<Swap> all = swaps(at);
            const auto next = std::min_element(
                all.begin(), all.end(),
                [](const Swap& x, const Swap& y) { return better(x.score, y.score); });
            if (next == all.end() || !better(next->score, now)) return;
            coster_.swap(at, next->a, next->b);
            now = next->score;
        }
    }

    /// Each swap that may lower the cost; kept where it is the best yet.
    std::vector<Swap> swaps(Costed& from) {
        std::vector<Swap> all;
        const auto critical = coster_.critical(from);
        for (const std::size_t a : critical) {
            for (std::size_t b = 0; b < from.at.size(); ++b) {
                const bool tried = b < a && std::binary_search(critical.begin(), critical.end(), b);
                if (a == b || tried) continue;
                coster_.swap(from, a, b);
                all.push_back({a, b, Coster::score(from)});
                keep_if_better(from.at, all.back().score.cost);
                coster_.swap(from, a, b);
            }
        }
        return all;
    }

    void keep_if_better(const Placement& at, double cost) {
        if (below(best_.cost, cost)) return;
        const double moved = moves_.of(at);
        const bool wins = below(cost, best_.cost) || below(moved, best_.moved) ||
                          (!below(best_.moved, moved) && moves_.nodes(at) < moves_.nodes(best_.at));
        if (wins) best_ = {at, cost, moved};
    }

    const Coster& coster_;
    const Moves& moves_;
    PlacedRoles best_;
};

bool in_range(double value) { return std::isfinite(value) && value >= 0; }

Status check(const RoleGrid& grid, const LinkTable& links, const Placement& now) {
    if (grid.replicas < 1 || grid.stages < 1 || grid.replicas > most_grid_nodes ||
        grid.stages > most_grid_nodes || grid.nodes() > most_grid_nodes)
        return usage_error("the grid has not 1 to 4096 nodes");
    if (links.nodes() != grid.nodes() || now.size() != grid.nodes() ||
        (!grid.state.empty() && grid.state.size() != grid.stages))
        return usage_error("grid, links, placement and state are not of one size");
    std::vector<bool> seen(now.size());
    for (const std::size_t node : now) {
        if (node >= now.size() || seen[node])
            return usage_error("the placement is no permutation of the nodes");
        seen[node] = true;
    }
    if (!in_range(grid.gradient) || !in_range(grid.activation) || !in_range(grid.micro_batches) ||
        !std::all_of(grid.state.begin(), grid.state.end(), in_range))
        return usage_error("an amount is no number from 0 on");
    for (std::size_t a = 0; a < links.nodes(); ++a)
        for (std::size_t b = a + 1; b < links.nodes(); ++b)
            if (const auto& [bandwidth, latency] = links.at(a, b);
                !in_range(bandwidth) || bandwidth == 0 || !in_range(latency))
                return usage_error("a bandwidth is no number above 0, or a latency none from 0 on");
    return Done{};
}

/// Slow nodes to and from the stages that are to hold them all.
class Consolidation {
  public:
    Consolidation(const RoleGrid& grid, const Placement& now, std::span<const std::size_t> slow)
        : grid_(grid), now_(now), is_slow_(now.size()), chosen_(grid.stages) {
        for (const std::size_t node : slow) is_slow_[node] = true;
        const std::size_t enough = (slow.size() + grid.replicas - 1) / grid.replicas;
        std::vector<std::size_t> held(grid.stages);
        for (std::size_t i = 0; i < now.size(); ++i) held[i % grid.stages] += is_slow_[now[i]];
        const auto empty = std::count(held.begin(), held.end(), 0U);
        needed_ = grid.stages - static_cast<std::size_t>(empty) > enough;
        choose(held, enough);
    }

    [[nodiscard]] Placement run(const Coster& coster, const Moves& moves) {
        Costed all = coster.costed(now_);
        for (std::size_t i = 0; needed_ && i < now_.size(); ++i)
            if (is_slow_[all.at[i]] && !chosen_[i % grid_.stages]) swap_in(all, i, coster, moves);
        return all.at;
    }

  private:
    void choose(const std::vector<std::size_t>& held, std::size_t enough) {
        std::vector<std::size_t> stages(grid_.stages);
        std::iota(stages.begin(), stages.end(), 0U);
        const auto rank = [&](std::size_t p) {
            const bool outer = p == 0 || p + 1 == grid_.stages;
            return std::tuple(outer, grid_.replicas - held[p], p);
        };
        std::sort(stages.begin(), stages.end(),
                  [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
        for (std::size_t i = 0; i < enough; ++i) chosen_[stages[i]] = true;
    }

    void swap_in(Costed& all, std::size_t place, const Coster& coster, const Moves& moves) const {
        using Price = std::tuple<double, double, bool, std::size_t>;
        Price best{INFINITY, INFINITY, true, now_.size()};
        for (std::size_t i = 0; i < now_.size(); ++i) {
            if (!chosen_[i % grid_.stages] || is_slow_[all.at[i]]) continue;
            coster.swap(all, i, place);
            const double moved = moves.of(i, all.at[i]) + moves.of(place, all.at[place]);
            const bool elsewhere = i / grid_.stages != place / grid_.stages;
            best = std::min(best, Price{Coster::score(all).cost, moved, elsewhere, i});
            coster.swap(all, i, place);
        }
        coster.swap(all, std::get<3>(best), place);
    }

    const RoleGrid& grid_;
    const Placement& now_;
    std::vector<bool> is_slow_, chosen_;
    bool needed_ = false;
};

}  // namespace

double communication_cost(const RoleGrid& grid, const LinkTable& links, const Placement& at) {
    return Coster(grid, links).cost(at);
}

double moved_state(const RoleGrid& grid, const Placement& from, const Placement& to) {
    return Moves(grid, from).of(to);
}

Result<PlacedRoles> place_roles(const RoleGrid& grid, const LinkTable& links,
                                const Placement& now) {
    if (const auto checked = check(grid, links, now); !checked) return checked.error();
    const Coster coster(grid, links);
    const Moves moves(grid, now);
    return SwapSearch(coster, moves, now).run();
}

Result<PlacedRoles> consolidate_slow_nodes(const RoleGrid& grid, const LinkTable& links,
                                           const Placement& now,
                                           std::span<const std::size_t> slow) {
    if (const auto checked = check(grid, links, now); !checked) return checked.error();
    std::vector<std::size_t> sorted(slow.begin(), slow.end());
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end() ||
        (!sorted.empty() && sorted.back() >= now.size()))
        return usage_error("a slow node is no node of the grid, or stands twice");
    const Coster coster(grid, links);
    const Moves moves(grid, now);
    PlacedRoles plan;
    plan.at = Consolidation(grid, now, sorted).run(coster, moves);
    plan.cost = coster.cost(plan.at);
    plan.moved = moves.of(plan.at);
    return plan;
}

}  // namespace arena::slowdown
