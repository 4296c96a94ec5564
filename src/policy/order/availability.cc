// SPDX-License-Identifier: GPL-2.0-or-later
// See availability.h.
#include "policy/order/availability.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>

#include "policy/fabric.h"
#include "policy/places.h"
#include "policy/reservation.h"

namespace arena {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
/// Slurm's backfill takes a job without a limit to run so long.
constexpr double year_s = 365.0 * 86400;

bool holds(const Resources& free, const JobState& job, std::int64_t gpus) {
    return free.gpus >= gpus && free.cpus >= gpus * job.cpus_per_gpu &&
           free.memory_mb >= gpus * job.memory_mb_per_gpu;
}

bool ends_before(double end_s, const Availability::Start& other) {
    return other.choice == nullptr || end_s < other.in_s + other.run_s;
}

}  // namespace

double lasts_at_most_s(const JobState& job) {
    double left_s = 0;
    if (job.remaining_iterations > 0 && !job.overrun && job.current)
        left_s = job.remaining_iterations * job.current->estimate.iteration_s;
    if (job.time_limit_s > 0) return std::max(job.time_limit_s, left_s);
    return left_s > 0 ? left_s : year_s;
}

struct Availability::Known {
    std::vector<std::vector<NodeIndex>> nodes_of_type;
    std::vector<std::vector<bool>> in_set;  ///< [node set][node]; empty: every node
};

Availability::Availability(const Problem& problem)
    : problem_(&problem),
      leaves_s_(problem.snapshot().jobs.size(), 0),
      changes_(problem.snapshot().nodes.size()) {
    const Snapshot& snapshot = problem.snapshot();
    auto known = std::make_shared<Known>();
    known->nodes_of_type.resize(problem.types());
    for (NodeIndex n = 0; n < snapshot.nodes.size(); ++n)
        if (problem.type_of_node(n) >= 0 && snapshot.nodes[n].up &&
            snapshot.nodes[n].returning_s == 0 && !problem.fabric().is_outside(n))
            known->nodes_of_type[static_cast<std::size_t>(problem.type_of_node(n))].push_back(n);
    for (const auto& set : snapshot.node_sets) {
        auto& inside = known->in_set.emplace_back();
        if (set.size() == snapshot.nodes.size()) continue;
        inside.resize(snapshot.nodes.size());
        for (const NodeIndex n : set) inside[n] = true;
    }
    known_ = std::move(known);
    for (std::size_t j = 0; j < snapshot.jobs.size(); ++j) {
        const JobState& job = snapshot.jobs[j];
        if (job.phase != JobPhase::running || !job.current) continue;
        leaves_s_[j] = std::max(lasts_at_most_s(job), 0.0);
        for (std::size_t n = 0; n < job.nodes.size(); ++n)
            give(job.nodes[n], leaves_s_[j], job.current->grid.gpus_on(n), job);
    }
    for (const Occupied& held : snapshot.others) {
        // Who has outlived its end holds its GPUs all the same.
        const double in_s =
            std::isfinite(held.end_s) ? std::max(held.end_s - snapshot.time_s, 1.0) : year_s;
        for (const Occupied::Part& part : held.parts) {
            // What was taken off a node that is closed comes back when it does.
            const NodeState& node = snapshot.nodes[part.node];
            const std::int64_t most = node.total_gpus - node.free_gpus;
            change(part.node, in_s, {std::min(part.gpus, most), 0, 0});
            const NodeParts parts = parts_of(snapshot.nodes, part.node);
            for (NodeIndex n = parts.first; n < parts.last; ++n)
                change(n, in_s, {0, part.cpus, part.memory_mb});
        }
    }
}

void Availability::give_way(std::size_t j, double in_s) {
    const JobState& job = problem_->snapshot().jobs[j];
    if (job.phase != JobPhase::running || !job.current) return;
    const double then_s = std::min(std::max(lasts_at_most_s(job), 0.0), in_s);
    if (then_s == leaves_s_[j]) return;
    for (std::size_t n = 0; n < job.nodes.size(); ++n) {
        const std::int64_t gpus = job.current->grid.gpus_on(n);
        forget_windows(job.nodes[n]);
        give(job.nodes[n], leaves_s_[j], -gpus, job);
        give(job.nodes[n], then_s, gpus, job);
    }
    leaves_s_[j] = then_s;
}

/// Those of the types of the node.
void Availability::forget_windows(NodeIndex node) {
    if (windows_.empty()) return;
    const NodeParts parts = parts_of(problem_->snapshot().nodes, node);
    for (NodeIndex n = parts.first; n < parts.last; ++n) {
        const std::int32_t type = problem_->type_of_node(n);
        std::erase_if(windows_, [&](const auto& of) { return std::get<0>(of.first) == type; });
    }
}

void Availability::give(NodeIndex node, double in_s, std::int64_t gpus, const JobState& job) {
    change(node, in_s, {gpus, 0, 0});
    const NodeParts parts = parts_of(problem_->snapshot().nodes, node);
    for (NodeIndex n = parts.first; n < parts.last; ++n)
        change(n, in_s, {0, gpus * job.cpus_per_gpu, gpus * job.memory_mb_per_gpu});
}

void Availability::change(NodeIndex node, double in_s, const Resources& by) {
    auto& list = changes_[node];
    const auto at =
        std::upper_bound(list.begin(), list.end(), in_s,
                         [](double time_s, const Change& change) { return time_s < change.in_s; });
    if (at != list.begin() && std::prev(at)->in_s == in_s) {
        std::prev(at)->by += by;
        return;
    }
    list.insert(at, {in_s, by});
}

Resources Availability::free_at(NodeIndex node, double in_s) const {
    const NodeState& state = problem_->snapshot().nodes[node];
    Resources free{state.free_gpus, state.free_cpus, state.free_memory_mb};
    for (const Change& change : changes_[node]) {
        if (change.in_s > in_s) break;
        free += change.by;
    }
    return free;
}

void Availability::windows_of(const JobState& job, NodeIndex node, std::int64_t per_node,
                              double stay_s, Windows& out) const {
    const NodeState& state = problem_->snapshot().nodes[node];
    if (state.total_gpus < per_node) return;
    Resources free{state.free_gpus, state.free_cpus, state.free_memory_mb};
    double since_s = 0;
    bool open = holds(free, job, per_node);
    for (const Change& change : changes_[node]) {
        free += change.by;
        const bool now = holds(free, job, per_node);
        if (now == open) continue;
        if (open && change.in_s - stay_s >= since_s)
            out.list.push_back({since_s, change.in_s - stay_s, node});
        out.close = out.close || open;
        open = now;
        since_s = change.in_s;
    }
    if (open) out.list.push_back({since_s, never, node});
}

const Availability::Windows& Availability::windows_for(const JobState& job, std::int32_t type,
                                                       std::uint32_t node_set,
                                                       std::int64_t per_node, double stay_s) const {
    const auto [at, is_new] =
        windows_.try_emplace({type, node_set, per_node, job.cpus_per_gpu, job.memory_mb_per_gpu});
    Windows& windows = at->second;
    if (!is_new && !windows.close) return windows;
    windows = {};
    const auto& inside = known_->in_set[node_set];
    for (const NodeIndex n : known_->nodes_of_type[static_cast<std::size_t>(type)])
        if (inside.empty() || inside[n]) windows_of(job, n, per_node, stay_s, windows);
    steps_ += std::ssize(known_->nodes_of_type[static_cast<std::size_t>(type)]);
    std::sort(windows.list.begin(), windows.list.end(), [](const Window& a, const Window& b) {
        return std::tie(a.from_s, a.node) < std::tie(b.from_s, b.node);
    });
    return windows;
}

/// So many of the nodes, close together; none where a job may have no set of them that is as large
/// and lies so near.
std::vector<NodeIndex> Availability::nodes_of(std::span<const Window> open, std::size_t wanted,
                                              const Offer& offer, Span widest,
                                              bool anywhere) const {
    std::vector<NodeIndex> nodes;
    const Fabric& fabric = problem_->fabric();
    const auto any_nodes = [&] {
        for (const Window& window : takes_first_ ? open.first(wanted) : open.last(wanted))
            nodes.push_back(window.node);
        return nodes;
    };
    if (fabric.is_flat()) return any_nodes();
    std::vector<std::int64_t> room(fabric.leaves(), 0);
    for (const Window& window : open) room[fabric.leaf_of(window.node)] += 1;
    for (std::int64_t& of_leaf : room) of_leaf -= of_leaf % offer.segment;
    std::vector<Fabric::Share> shares;
    if (!fabric.choose(room, static_cast<std::int64_t>(wanted), shares))
        return anywhere ? any_nodes() : nodes;
    if (fabric.span_of(shares) > widest) return nodes;
    Fabric::Taking taking(fabric, shares);
    const auto take = [&](const Window& window) {
        if (taking.take(window.node)) nodes.push_back(window.node);
    };
    if (takes_first_)
        std::for_each(open.begin(), open.end(), take);
    else
        std::for_each(open.rbegin(), open.rend(), take);
    return nodes;
}

/// How long it keeps the nodes from others, by its limit; without one as Slurm's backfill has it.
double Availability::stay_s(const JobState& job, double run_s) const {
    const bool unknown = job.time_limit_s <= 0 && !(job.remaining_iterations > 0);
    return std::max(run_s, unknown ? year_s : job.time_limit_s);
}

/// Asks `found(at_s, open windows)` at each start that enough of them allow, until it is true or
/// no later start would be better.
template <typename Better, typename Found>
void Availability::sweep(const std::vector<Window>& list, std::size_t wanted, Better is_better,
                         Found found) {
    std::vector<Window> open;
    for (std::size_t w = 0; w < list.size(); ++w) {
        const double at_s = list[w].from_s;
        if (!is_better(at_s)) return;
        open.push_back(list[w]);
        const bool last = w + 1 == list.size() || list[w + 1].from_s > at_s;
        if (!last || open.size() < wanted) continue;
        std::erase_if(open, [&](const Window& other) { return other.until_s < at_s; });
        if (open.size() >= wanted && found(at_s, open)) return;
    }
}

void Availability::try_layout(const Task& task, const Choice& choice, const Place& place,
                              const Offer& offer, std::int64_t per_node, Start& best) const {
    const auto wanted = static_cast<std::size_t>(choice.gpus / per_node);
    if (!allows(place, *task.job, choice.gpus / per_node, per_node)) return;
    if (place.node_set >= known_->in_set.size()) return;
    const Span widest = std::min(problem_->widest(choice, offer), problem_->fabric().widest());
    const double run_s = problem_->run_s(task, offer, widest);
    if (!ends_before(run_s, best)) return;
    const double stays_s = stay_s(*task.job, run_s);
    const Windows& windows = windows_for(*task.job, choice.type, place.node_set, per_node, stays_s);
    const std::vector<Window>& list = windows.list;
    if (list.size() < wanted) return;
    const bool anywhere = problem_->may_lie_anywhere(place, choice, offer);
    const auto is_better = [&](double at_s) { return ends_before(at_s + run_s, best); };
    const auto found = [&](double at_s, std::span<const Window> open) {
        std::vector<NodeIndex> nodes = nodes_of(open, wanted, offer, widest, anywhere);
        if (nodes.empty()) return false;
        std::sort(nodes.begin(), nodes.end());
        best = {&choice, &offer, at_s, run_s, stays_s, per_node, std::move(nodes)};
        return true;
    };
    if (windows.close || !anywhere) return sweep(list, wanted, is_better, found);
    const double at_s = list[wanted - 1].from_s;
    if (!is_better(at_s)) return;
    const auto end = std::partition_point(
        list.begin(), list.end(), [&](const Window& window) { return window.from_s <= at_s; });
    (void)found(at_s, {list.begin(), end});
}

/// A node that could give g GPUs is open g times: for one of them, for two, up to g.
void Availability::try_pieces(const Task& task, const Choice& choice, const Place& place,
                              const Offer& offer, Start& best) const {
    if (place.node_set >= known_->in_set.size()) return;
    const Span widest = std::min(problem_->widest(choice, offer), problem_->fabric().widest());
    const double run_s = problem_->run_s(task, offer, widest);
    const double stays_s = stay_s(*task.job, run_s);
    std::vector<Window> list;
    for (std::int64_t g = 1; g < choice.gpus && allows_on_node(place, *task.job, g); ++g) {
        const Windows& windows = windows_for(*task.job, choice.type, place.node_set, g, stays_s);
        if (windows.list.empty()) break;
        std::copy_if(
            windows.list.begin(), windows.list.end(), std::back_inserter(list),
            [&](const Window& w) { return problem_->snapshot().nodes[w.node].lent.empty(); });
    }
    std::stable_sort(list.begin(), list.end(), [](const Window& a, const Window& b) {
        return std::tie(a.from_s, a.node) < std::tie(b.from_s, b.node);
    });
    sweep(
        list, static_cast<std::size_t>(choice.gpus),
        [&](double at_s) {
            return steps_ <= problem_->options().search_steps && ends_before(at_s + run_s, best);
        },
        [&](double at_s, std::span<const Window> open) {
            steps_ += std::ssize(open);
            Start start{.choice = &choice,
                        .offer = &offer,
                        .in_s = at_s,
                        .run_s = run_s,
                        .stay_s = stays_s,
                        .nodes = {}};
            if (!take_pieces(open, place, choice.gpus, start)) return false;
            if (problem_->fabric().span_of(start.nodes) > widest) return false;
            best = std::move(start);
            return true;
        });
}

/// On the fewest nodes, the largest pieces first; where not every set of nodes is a job's, below
/// one leaf, as packing takes them.
bool Availability::take_pieces(std::span<const Window> open, const Place& place, std::int64_t gpus,
                               Start& start) const {
    const Fabric& fabric = problem_->fabric();
    std::map<std::pair<std::uint32_t, NodeIndex>, std::int64_t> most;
    for (const Window& window : open)
        ++most[{fabric.has_limits() ? fabric.leaf_of(window.node) : 0, window.node}];
    for (auto leaf = most.begin(); leaf != most.end();) {
        std::vector<std::pair<std::int64_t, NodeIndex>> pieces;  // the largest first
        const std::uint32_t of = leaf->first.first;
        for (; leaf != most.end() && leaf->first.first == of; ++leaf)
            pieces.emplace_back(-leaf->second, leaf->first.second);
        std::sort(pieces.begin(), pieces.end());
        std::map<NodeIndex, std::int64_t> taken;
        std::int64_t left = gpus;
        for (std::size_t p = 0; p < pieces.size() && left > 0; ++p) {
            const std::int64_t piece = std::min(-pieces[p].first, left);
            taken[pieces[p].second] = piece;
            left -= piece;
        }
        const auto nodes = std::ssize(taken);
        if (left > 0 || nodes < place.min_nodes || nodes > place.max_nodes) continue;
        Grid grid;
        std::vector<std::int64_t> split;
        for (const auto& [node, piece] : taken) {
            start.nodes.push_back(node);
            split.push_back(piece);
        }
        set_split(grid, std::move(split));
        start.gpus_per_node = grid.gpus_per_node;
        start.split = std::move(grid.split);
        return true;
    }
    return false;
}

Availability::Start Availability::first_end(const Task& task, const Choice& choice) const {
    Start best;
    const auto in_each_place = [&](auto attempt) {
        (void)any_place(*task.job, [&](const Place& place, std::uint32_t) {
            attempt(place);
            return false;
        });
    };
    const auto layout = [&](const Offer& offer, std::int64_t per_node) {
        in_each_place(
            [&](const Place& place) { try_layout(task, choice, place, offer, per_node, best); });
    };
    const auto offers = problem_->offers(choice);
    for (const Offer* offer : offers)
        if (!offer->grid.is_uneven()) layout(*offer, offer->grid.gpus_per_node);
    const Offer* any = any_split(*problem_, choice);
    for (std::int64_t g = choice.gpus; any != nullptr && g >= 1; --g) {
        if (best.choice != nullptr && best.in_s <= 0) break;
        if (choice.gpus % g == 0) layout(*any, g);
    }
    if (best.choice != nullptr || !only_in_pieces(*problem_, task)) return best;
    for (const Offer* offer : offers)
        if (offer->grid.is_uneven())
            in_each_place(
                [&](const Place& place) { try_pieces(task, choice, place, *offer, best); });
    return best;
}

Availability::Start Availability::in_slurm(const Task& task) const {
    const std::int32_t asked = problem_->requested(task);
    if (asked >= 0 && !problem_->needs_near_nodes())
        return first_end(task, problem_->choice(asked));
    Start best;
    for (const Choice& choice : problem_->choices(task)) {
        // Slurm itself would take nodes that lie apart
        if (asked >= 0 && (choice.type != problem_->choice(asked).type ||
                           choice.gpus != problem_->choice(asked).gpus))
            continue;
        const double least_s = problem_->run_s(task, choice);
        if (best.choice != nullptr && least_s >= best.in_s + best.run_s) continue;
        Start start = first_end(task, choice);
        if (start.choice == nullptr) continue;
        if (best.choice == nullptr || start.in_s + start.run_s < best.in_s + best.run_s)
            best = std::move(start);
    }
    return best;
}

void Availability::occupy(const Task& task, const Start& start, std::int64_t sign) {
    for (std::size_t at = 0; at < start.nodes.size(); ++at) {
        const NodeIndex n = start.nodes[at];
        const std::int64_t gpus = sign * start.gpus_on(at);
        forget_windows(n);
        give(n, start.in_s, -gpus, *task.job);
        give(n, start.in_s + start.stay_s, gpus, *task.job);
    }
}

void Availability::take(const Task& task, const Start& start) { occupy(task, start, 1); }

void Availability::give_back(const Task& task, const Start& start) { occupy(task, start, -1); }

}  // namespace arena
