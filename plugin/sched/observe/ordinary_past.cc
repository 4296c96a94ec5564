// SPDX-License-Identifier: GPL-2.0-or-later
// See ordinary_past.h.
#include "plugin/sched/observe/ordinary_past.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace arena {
namespace {

/// `sign` 1: its nodes are given back, -1: taken. A reconfigured slurmctld may have fewer.
void give_parts(ClusterView& view, const Occupied& held, std::int64_t sign) {
    for (const Occupied::Part& part : held.parts)
        if (part.node < view.snapshot.nodes.size())
            give_to_node(view.snapshot.nodes, part.node, sign * part.gpus, sign * part.cpus,
                         sign * part.memory_mb);
}

void next_of(double& next_s, double time_s, double after_s) {
    if (time_s > after_s) next_s = std::min(next_s, time_s);
}

}  // namespace

std::uint32_t put_set(ClusterView& view, const std::vector<NodeIndex>& nodes) {
    auto& sets = view.snapshot.node_sets;
    const auto is_gone = [&](NodeIndex n) { return n >= view.snapshot.nodes.size(); };
    if (std::any_of(nodes.begin(), nodes.end(), is_gone)) {
        std::vector<NodeIndex> left = nodes;
        std::erase_if(left, is_gone);
        return put_set(view, left);
    }
    const auto at = std::find(sets.begin(), sets.end(), nodes);
    if (at != sets.end()) return static_cast<std::uint32_t>(at - sets.begin());
    sets.push_back(nodes);
    return static_cast<std::uint32_t>(sets.size() - 1);
}

void OrdinaryPast::see(ClusterView& real, const std::function<bool(JobId)>& is_planned) {
    const double now_s = real.snapshot.time_s;
    std::map<JobId, Run> before = std::exchange(running_, {});
    for (Occupied& held : std::exchange(real.running, {})) {
        give_parts(real, held, 1);
        const auto known = before.extract(held.job);
        if (is_planned(held.job)) continue;
        const double from_s = known ? known.mapped().span.from_s : now_s;
        const JobId job = held.job;
        running_[job] = {{from_s, INFINITY}, std::move(held)};
    }
    // Slurm counts GPUs of a completing job as free, while it holds them still.
    for (NodeState& node : real.snapshot.nodes)
        node.free_gpus = std::min(node.free_gpus, node.total_gpus);
    for (auto& [id, run] : before) {
        run.span.to_s = now_s;
        over_.push_back(std::move(run));
    }
    for (auto& [id, wait] : waiting_) wait.span.to_s = std::min(wait.span.to_s, now_s);
    for (OrdinaryJob& job : std::exchange(real.ordinary, {})) {
        const auto [at, is_new] = waiting_.try_emplace(job.id);
        Wait& wait = at->second;
        if (is_new) wait.span.from_s = now_s;
        wait.span.to_s = INFINITY;
        const auto& sets = real.snapshot.node_sets;
        wait.nodes = job.node_set < sets.size() ? sets[job.node_set] : std::vector<NodeIndex>();
        wait.job = std::move(job);
    }
}

void OrdinaryPast::forget(JobId job) { running_.erase(job); }

void OrdinaryPast::put_at(ClusterView& view) {
    const double at_s = view.snapshot.time_s;
    std::erase_if(over_, [&](const Run& run) { return run.span.to_s <= at_s; });
    std::erase_if(waiting_, [&](const auto& entry) { return entry.second.span.to_s <= at_s; });
    const auto put = [&](const Run& run) {
        if (!run.span.holds(at_s)) return;
        give_parts(view, run.held, -1);
        view.running.push_back(run.held);
    };
    for (const Run& run : over_) put(run);
    for (const auto& [id, run] : running_) put(run);
    for (const auto& [id, wait] : waiting_) {
        if (!wait.span.holds(at_s)) continue;
        view.ordinary.push_back(wait.job);
        view.ordinary.back().node_set = put_set(view, wait.nodes);
    }
}

double OrdinaryPast::next_change(double after_s) const {
    double next_s = INFINITY;
    const auto add = [&](const Span& span) {
        next_of(next_s, span.from_s, after_s);
        next_of(next_s, span.to_s, after_s);
    };
    for (const Run& run : over_) add(run.span);
    for (const auto& [id, run] : running_) add(run.span);
    for (const auto& [id, wait] : waiting_) add(wait.span);
    return next_s;
}

}  // namespace arena
