// SPDX-License-Identifier: GPL-2.0-or-later
// See reclaim_moves.h.
#include "policy/loans/reclaim_moves.h"

#include <algorithm>
#include <limits>

namespace arena {
namespace {

constexpr std::int64_t nowhere = std::numeric_limits<std::int64_t>::max();

/// GPUs per node of the offer on nodes with so many for the job, as few nodes as can be; 0: it does
/// not fit on them.
std::int64_t layout(const Offer& offer, std::int64_t per_node, bool any_layout) {
    if (!any_layout) return offer.grid.gpus_per_node <= per_node ? offer.grid.gpus_per_node : 0;
    for (std::int64_t g = std::min(per_node, offer.grid.gpus()); g >= 1; --g)
        if (offer.grid.gpus() % g == 0) return g;
    return 0;
}

/// GPUs that the job has on each of its nodes.
std::int64_t least_on_a_node(const JobState& job) {
    const Grid& grid = job.current->grid;
    return grid.is_uneven() ? *std::min_element(grid.split.begin(), grid.split.end())
                            : grid.gpus_per_node;
}

std::int64_t nodes_for(const JobState& job, const Offer& offer, bool any_layout) {
    const std::int64_t gpus = offer.grid.gpus();
    if (offer.grid.is_uneven() || offer.segment > 1) return nowhere;  // what stays is in pieces
    if (offer.grid.gpu_type != job.current->grid.gpu_type || gpus < job.min_gpus ||
        gpus > job.max_gpus)
        return nowhere;
    const std::int64_t g = layout(offer, least_on_a_node(job), any_layout);
    return g == 0 ? nowhere : gpus / g;
}

/// Of its smallest offer; nowhere: the job cannot be scaled in.
std::int64_t least_nodes(const JobState& job, const Offers& offers, bool any_layout) {
    const auto at = offers.find(job.id);
    std::int64_t least = nowhere;
    if (!job.elastic || at == offers.end()) return least;
    for (const Offer& offer : at->second)
        least = std::min(least, nodes_for(job, offer, any_layout));
    return least;
}

/// By what its user said of its work; nobody knows when one ends that has done more than that.
bool ends_in_time(const Snapshot& snapshot, const JobState& job, const EndsInTime& ends) {
    if (job.overrun || !(job.remaining_iterations > 0)) return false;
    const double started_s = job.start_s + ends.restart_s;
    const double left_s = job.remaining_iterations * job.current->estimate.iteration_s;
    return std::max(0.0, started_s - snapshot.time_s) + left_s <= ends.within_s;
}

void add_job(const Snapshot& snapshot, const Offers& offers, std::uint32_t index,
             const std::vector<std::int32_t>& server_of, bool any_layout, const EndsInTime& ends,
             ReclaimView& view) {
    const JobState& job = snapshot.jobs[index];
    std::int64_t here = 0, own = 0;
    for (const NodeIndex n : job.nodes) {
        here += server_of[n] >= 0 ? 1 : 0;
        own += server_of[n] < 0 && snapshot.nodes[n].returning_s == 0 ? 1 : 0;
    }
    if (here == 0) return;
    const bool is_ending = ends.within_s > 0 && ends_in_time(snapshot, job, ends);
    const std::int64_t least = is_ending ? 0 : least_nodes(job, offers, any_layout);
    // Who was promised an end is stopped last.
    const double weight = job.due_s > 0 ? 1 + static_cast<double>(snapshot.jobs.size()) : 1;
    const std::int64_t base = least == nowhere ? here : std::max<std::int64_t>(0, least - own);
    view.problem.add_job(weight, static_cast<std::int32_t>(std::max<std::int64_t>(0, here - base)));
    view.jobs.push_back(index);
    view.ends.push_back(is_ending);
    for (std::size_t at = 0; at < job.nodes.size(); ++at) {
        const std::int32_t server = server_of[job.nodes[at]];
        if (server < 0) continue;
        view.problem.add_part({.server = static_cast<ServerIndex>(server),
                               .gpus = static_cast<std::int32_t>(job.current->grid.gpus_on(at)),
                               .is_base = base > 0});
    }
}

/// On nodes that stay, those that are not lent first.
Action scale_in(const Snapshot& snapshot, const Offers& offers, const JobState& job,
                std::vector<NodeIndex> stay, bool any_layout) {
    const Offer* best = nullptr;
    for (const Offer& offer : offers.find(job.id)->second) {
        if (nodes_for(job, offer, any_layout) > static_cast<std::int64_t>(stay.size())) continue;
        if (!best || offer.estimate.iteration_s < best->estimate.iteration_s) best = &offer;
    }
    std::stable_partition(stay.begin(), stay.end(),
                          [&](NodeIndex n) { return snapshot.nodes[n].lent.empty(); });
    Action action{.kind = ActionKind::resize, .job = job.id, .offer = *best};
    Grid& grid = action.offer.grid;
    const std::int64_t gpus = grid.gpus();
    grid.gpus_per_node = layout(*best, least_on_a_node(job), any_layout);
    grid.nodes = gpus / grid.gpus_per_node;
    stay.resize(static_cast<std::size_t>(grid.nodes));
    std::sort(stay.begin(), stay.end());
    action.nodes = std::move(stay);
    action.reason = "gives lent nodes back";
    return action;
}

}  // namespace

ReclaimView reclaim_view(const Snapshot& snapshot, const Offers& offers,
                         const std::vector<NodeIndex>& lent, std::size_t wanted, bool any_layout,
                         const EndsInTime& ends) {
    ReclaimView view;
    view.nodes = lent;
    view.problem.servers = lent.size();
    view.problem.wanted = std::min(wanted, lent.size());
    view.problem.second = ReclaimSecond::restarts;
    std::vector<std::int32_t> server_of(snapshot.nodes.size(), -1);
    for (std::size_t s = 0; s < lent.size(); ++s) {
        const NodeParts parts = parts_of(snapshot.nodes, lent[s]);
        for (NodeIndex n = parts.first; n < parts.last; ++n)
            server_of[n] = static_cast<std::int32_t>(s);
    }
    for (std::uint32_t i = 0; i < snapshot.jobs.size(); ++i) {
        const JobState& job = snapshot.jobs[i];
        if (job.phase == JobPhase::running && job.current)
            add_job(snapshot, offers, i, server_of, any_layout, ends, view);
    }
    return view;
}

std::vector<Action> reclaim_moves(const Snapshot& snapshot, const Offers& offers,
                                  const ReclaimView& view, const std::vector<ServerIndex>& returned,
                                  bool any_layout) {
    std::vector<bool> leaves(snapshot.nodes.size());
    for (const ServerIndex s : returned) {
        const NodeParts parts = parts_of(snapshot.nodes, view.nodes[s]);
        for (NodeIndex n = parts.first; n < parts.last; ++n) leaves[n] = true;
    }
    const std::vector<bool> preempted = preempted_by(view.problem, returned);
    std::vector<Action> actions;
    for (std::size_t j = 0; j < view.jobs.size(); ++j) {
        const JobState& job = snapshot.jobs[view.jobs[j]];
        const bool is_hit =
            std::any_of(job.nodes.begin(), job.nodes.end(), [&](NodeIndex n) { return leaves[n]; });
        if (!is_hit || view.ends[j]) continue;
        std::vector<NodeIndex> stay;
        for (const NodeIndex n : job.nodes)
            if (!leaves[n] && snapshot.nodes[n].returning_s == 0) stay.push_back(n);
        if (preempted[j])
            actions.push_back(
                {.kind = ActionKind::preempt, .job = job.id, .reason = "its lent nodes go back"});
        else
            actions.push_back(scale_in(snapshot, offers, job, std::move(stay), any_layout));
    }
    return actions;
}

}  // namespace arena
