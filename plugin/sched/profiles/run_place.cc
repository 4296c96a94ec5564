// SPDX-License-Identifier: GPL-2.0-or-later
// See run_place.h.
#include "plugin/sched/profiles/run_place.h"

#include <algorithm>
#include <limits>

#include "base/text.h"

namespace arena {
namespace {

/// Nodes of a type that may rest at once after they refused, before no other is asked: each
/// question costs slurmctld's write lock and a job id.
constexpr std::size_t max_resting = 3;
/// CPUs of a run at most.
constexpr std::int64_t max_cpus = 64;
/// A node rests at most for less than a model waits for its run before that counts as failed.
constexpr Refusals::Pace node_pace{2, 8, 20};

/// Where a run as such is refused, somebody must change something first.
Refusals::Pace partition_pace(double backoff_s) {
    constexpr double first_rest_s = 10, forget_s = 3600;
    return {first_rest_s, std::max(first_rest_s, backoff_s), forget_s};
}

/// Memory of one GPU of the node in MiB; 0 where memory is not a consumable resource.
std::int64_t memory_share(const ClusterView& view, std::size_t node) {
    const std::int64_t gpus = gpus_of_node(view.snapshot.nodes, static_cast<NodeIndex>(node));
    return view.memory_tracked && gpus > 0 ? view.node_memory_mb[node] / gpus : 0;
}

Taken taken_of(const std::vector<Taken>* taken, std::size_t index) {
    return taken && index < taken->size() ? (*taken)[index] : Taken{};
}

/// Beside what jobs before the one that asks are about to take.
bool has_room(const ClusterView& view, std::size_t index, const Taken& taken = {}) {
    const NodeState& node = view.snapshot.nodes[index];
    return node.free_gpus - taken.gpus >= 1 && node.free_cpus - taken.cpus >= 1 &&
           node.free_memory_mb - taken.memory_mb >= memory_share(view, index);
}

bool shown_free(const ClusterView& view, const std::string& name) {
    const std::vector<NodeState>& nodes = view.snapshot.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
        if (nodes[i].name == name && has_room(view, i)) return true;
    return false;
}

bool has_run(const ClusterView& view, const std::string& node) {
    return std::any_of(view.carriers.begin(), view.carriers.end(),
                       [&](const CarrierView& c) { return !c.finished && c.node == node; });
}

bool is_kept(const PlaceNeed& need, NodeIndex node) {
    return node < need.kept->size() && (*need.kept)[node];
}

/// Nodes that would do had they not refused a moment ago.
std::set<std::string> resting_nodes(const PlaceNeed& need, const ClusterView& view,
                                    const RunRefusals& refusals) {
    std::set<std::string> names;
    for (const RunPlace& place : need.places) {
        const std::string& name = view.snapshot.nodes[place.node].name;
        if (refusals.nodes.rests(name, view.steady_s)) names.insert(name);
    }
    return names;
}

bool is_awake(const ClusterView& view, NodeIndex node) { return !view.power.contains(node); }

/// One that is free and that a run may not wake up.
const RunPlace* sleeping_place(const PlaceNeed& need, const ClusterView& view) {
    for (const RunPlace& place : need.places)
        if (!can_wake(view, place.node, need.most_boot_s) &&
            (view.is(NodePower::unbooted, place.node) || has_room(view, place.node)))
            return &place;
    return nullptr;
}

/// Runs that have a node which this one could use.
std::size_t runs_on(const std::vector<RunPlace>& places, const ClusterView& view) {
    const auto could_use = [&](const std::string& name) {
        return std::any_of(places.begin(), places.end(), [&](const RunPlace& place) {
            const NodeState& node = view.snapshot.nodes[place.node];
            return node.name == name && node.up;
        });
    };
    return static_cast<std::size_t>(
        std::count_if(view.carriers.begin(), view.carriers.end(),
                      [&](const CarrierView& c) { return !c.finished && could_use(c.node); }));
}

}  // namespace

bool can_wake(const ClusterView& view, NodeIndex node, double most_boot_s) {
    if (is_awake(view, node)) return true;
    return !view.is(NodePower::unbooted, node) && view.snapshot.nodes[node].boot_s <= most_boot_s;
}

RunRefusals::RunRefusals(double backoff_s)
    : nodes(node_pace), partitions(partition_pace(backoff_s)), users(partition_pace(backoff_s)) {}

void RunRefusals::forget_old(const ClusterView& view) {
    nodes.forget_old(view.steady_s,
                     [&](const std::string& node) { return shown_free(view, node); });
    for (Refusals* refusals : {&partitions, &users})
        refusals->forget_old(view.steady_s, [](const std::string&) { return true; });
}

std::vector<RunPlace> run_places(const ProfileNeed& need, const ClusterView& view,
                                 const std::string& own) {
    std::vector<RunPlace> found;
    for (std::string_view name : split(own.empty() ? need.partition : own, ',')) {
        const auto partition = view.partitions.find(name);
        if (partition == view.partitions.end()) continue;
        for (NodeIndex index : *need.nodes)
            if (view.snapshot.nodes[index].gpu_type == need.gpu_type &&
                std::binary_search(partition->second.begin(), partition->second.end(), index))
                found.push_back(
                    {index, partition->first, need.gpu_type + " in partition " + partition->first});
    }
    return found;
}

std::string no_place_text(const ProfileNeed& need, const ClusterView& view,
                          const std::string& own) {
    if (own.empty()) return "partition " + need.partition + " takes no new jobs";
    const std::string leave_out = ", or take profile.partition out of arena.yaml";
    if (!view.partitions.contains(own))
        return "profile.partition " + own + " is no partition that takes jobs: mend it" + leave_out;
    return "no node that the job may use is in profile.partition " + own + ": add one to it" +
           leave_out;
}

bool has_type(const ClusterView& view, const std::string& partition, const std::string& gpu_type) {
    const auto at = view.partitions.find(partition);
    return at != view.partitions.end() &&
           std::any_of(at->second.begin(), at->second.end(), [&](NodeIndex index) {
               return view.snapshot.nodes[index].gpu_type == gpu_type;
           });
}

bool all_closed(const std::vector<RunPlace>& places, const RunRefusals& refusals, double now_s) {
    return std::all_of(places.begin(), places.end(), [&](const RunPlace& place) {
        return refusals.partitions.rests(place.asked, now_s);
    });
}

const RunPlace* pick_place(const PlaceNeed& need, const ClusterView& view,
                           const RunRefusals& refusals) {
    if (!need.kept || resting_nodes(need, view, refusals).size() >= max_resting) return nullptr;
    const double now_s = view.steady_s;
    // One that sleeps is woken up only when none is awake; where a run failed another is tried only
    // when there is no other node.
    enum Rank { untried, refused, sleeping, failed, none };
    const RunPlace* best = nullptr;
    Rank least = none;
    for (const RunPlace& place : need.places) {
        const std::string& node = view.snapshot.nodes[place.node].name;
        if (is_kept(need, place.node)) continue;
        if (!has_room(view, place.node, taken_of(need.taken, place.node))) continue;
        if (refusals.partitions.rests(place.asked, now_s)) continue;
        if (refusals.nodes.rests(node, now_s) || has_run(view, node)) continue;
        if (!can_wake(view, place.node, need.most_boot_s)) continue;
        const Rank rank = need.failed_on.contains(node)  ? failed
                          : !is_awake(view, place.node)  ? sleeping
                          : refusals.nodes.refused(node) ? refused
                                                         : untried;
        if (rank == untried) return &place;
        if (rank < least) least = rank, best = &place;
    }
    return best;
}

RunPlacement place_run(const PlaceNeed& need, const ClusterView& view,
                       const RunRefusals& refusals) {
    using Outcome = RunPlacement::Outcome;
    if (const RunPlace* place = pick_place(need, view, refusals))
        return {.outcome = Outcome::found, .place = place};
    if (all_closed(need.places, refusals, view.steady_s)) return {.outcome = Outcome::closed};
    PlaceNeed alone = need;
    alone.taken = nullptr;
    if (pick_place(alone, view, refusals)) return {.outcome = Outcome::behind_jobs};
    if (const std::size_t runs = runs_on(need.places, view))
        return {.outcome = Outcome::behind_runs, .runs = runs};
    if (!need.kept || std::any_of(need.places.begin(), need.places.end(),
                                  [&](const RunPlace& place) { return is_kept(need, place.node); }))
        return {.outcome = Outcome::behind_users};
    const std::set<std::string> resting = resting_nodes(need, view, refusals);
    if (!resting.empty()) return {.outcome = Outcome::resting, .node = *resting.begin()};
    if (const RunPlace* place = sleeping_place(need, view))
        return {.outcome = Outcome::asleep, .node = view.snapshot.nodes[place->node].name};
    return {};
}

/// The same of whichever node of the partition it goes to, as far as that is free: then what Slurm
/// says against the job is true of all of them.
RunShare run_share(const RunPlace& place, const ClusterView& view,
                   const std::vector<Taken>* taken) {
    const NodeState& here = view.snapshot.nodes[place.node];
    RunShare least{max_cpus, std::numeric_limits<std::int64_t>::max()};
    for (NodeIndex index : view.partitions.at(place.partition)) {
        const NodeState& node = view.snapshot.nodes[index];
        if (node.gpu_type != here.gpu_type || node.total_gpus == 0) continue;
        least.cpus =
            std::min(least.cpus, view.node_cpus[index] / gpus_of_node(view.snapshot.nodes, index));
        least.memory_mb = std::min(least.memory_mb, memory_share(view, index));
    }
    const Taken before = taken_of(taken, place.node);
    const std::int64_t gpus = std::max<std::int64_t>(here.free_gpus - before.gpus, 1);
    const std::int64_t free_cpus = (here.free_cpus - before.cpus) / gpus;
    return {std::max<std::int64_t>(std::min(free_cpus, least.cpus), 1), least.memory_mb};
}

}  // namespace arena
