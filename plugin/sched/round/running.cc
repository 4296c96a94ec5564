// SPDX-License-Identifier: GPL-2.0-or-later
// See running.h.
#include "plugin/sched/round/running.h"

#include <algorithm>
#include <cmath>

#include "plugin/sched/host/move_end.h"
#include "plugin/sched/round/shares.h"

namespace arena {
namespace {

/// A signal that comes before the script has said what to do with it ends the job.
constexpr double ready_s = 5;
constexpr double hour_s = 3600;
/// Of a job that nothing ends: what policies take it for.
constexpr double unlimited_s = 86400;

}  // namespace

bool inside_request(const Request& request, const Offer& offer) {
    const std::int64_t gpus = offer.grid.gpus();
    const bool in_range =
        gpus >= request.min_gpus && (request.max_gpus == 0 || gpus <= request.max_gpus);
    return in_range && allows(request.gpu_types, offer.grid.gpu_type) &&
           matches(request.pin, offer.plan);
}

double done_iterations(const JobView& job, const std::optional<Offer>& plan, double now_s,
                       const RestartCost& restart) {
    if (!job.facts.mark) return 0;
    const auto done = static_cast<double>(job.facts.mark->done);
    if (job.facts.mark->phase != Phase::started || !plan || !(plan->estimate.iteration_s > 0))
        return done;
    const std::int64_t gpus = plan->grid.gpus();
    const double worked_s =
        now_s - job.plan_since_s() -
        restart.seconds(gpus, moves_took(*job.facts.mark, restart.launch_s(gpus)));
    return done + std::max(0.0, std::floor(worked_s / plan->estimate.iteration_s));
}

MovesTook moves_took(const JobMark& mark, double launch_s) {
    MovesTook took{};
    static_assert(JobMark::max_took == took.size());
    for (std::size_t i = 0; i < mark.took.size(); ++i) {
        const JobMark::Took& move = mark.took[i];
        const double start_s = move.start_s > 0 ? static_cast<double>(move.start_s) : launch_s;
        took[i] = std::max<std::int64_t>(move.leave_s + std::llround(start_s), 1);
    }
    return took;
}

bool ready_for_signals(bool configuring, double run_s) { return !configuring && run_s >= ready_s; }

bool movable(const JobView& job, const Request& request, double run_s, double now_s,
             const Config& config) {
    return job.nodes_open && run_s >= config.cooldown_s &&
           why_not_to_leave(job, request, true, run_s, now_s, config).empty();
}

double settles_s(std::span<const std::int64_t> moves, std::uint32_t unsaved, double now_s,
                 const Config& config, double run_s) {
    constexpr double never_s = 365.0 * 86400;
    if (unsaved >= max_unsaved_moves || config.moves_per_hour <= 0) return never_s;
    const auto most = static_cast<std::size_t>(config.moves_per_hour);
    double settles_s = std::max(config.cooldown_s - run_s, 1.0);
    if (moves.size() >= most)
        settles_s =
            std::max(settles_s, static_cast<double>(moves[moves.size() - most]) + hour_s - now_s);
    return settles_s;
}

std::string why_not_to_leave(const JobView& job, const Request& request, bool counts, double run_s,
                             double now_s, const Config& config) {
    const JobMark& mark = *job.facts.mark;
    if (!request.elastic) return "it is not elastic";
    if (mark.phase != Phase::started) return "it saves its state already";
    if (mark.hold != OtherHold::none) return "it is held and would not come back";
    if (!ready_for_signals(job.configuring, run_s)) return "it has only just started";
    // One of the future is of a clock that was set back since.
    const auto recent = [&](std::int64_t at) {
        return std::abs(now_s - static_cast<double>(at)) < hour_s;
    };
    if (counts && mark.unsaved >= max_unsaved_moves) return "it never leaves a checkpoint";
    if (counts &&
        std::count_if(mark.moves.begin(), mark.moves.end(), recent) >= config.moves_per_hour)
        return "it was moved often enough in this hour";
    return {};
}

std::vector<NodeIndex> nodes_to_stay_on(const JobView& job, const Request& request,
                                        const Offer& now, const Offer& next,
                                        std::span<const NodeIndex> chosen,
                                        const Snapshot& snapshot) {
    const Grid &from = now.grid, &to = next.grid;
    const bool same_pieces = !from.is_uneven() && !to.is_uneven() && to.gpu_type == from.gpu_type &&
                             to.gpus_per_node == from.gpus_per_node && next.segment <= 1;
    if (!request.inplace || !same_pieces || to.nodes > from.nodes ||
        std::ssize(job.nodes) != from.nodes)
        return {};
    const auto has = [](std::span<const NodeIndex> nodes, NodeIndex node) {
        return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
    };
    // Whose lender is told of each start on them, and those that it is to be off.
    const auto is_out = [&](NodeIndex node) {
        return !snapshot.nodes[node].lent.empty() || has(job.avoided, node);
    };
    const auto batch = std::find_if(job.nodes.begin(), job.nodes.end(), [&](NodeIndex node) {
        return snapshot.nodes[node].name == job.batch_host;
    });
    if (batch == job.nodes.end() || std::any_of(job.nodes.begin(), job.nodes.end(), is_out) ||
        !std::all_of(chosen.begin(), chosen.end(), [&](auto node) { return has(job.nodes, node); }))
        return {};
    std::vector<NodeIndex> stay{*batch};
    for (const auto& nodes : {chosen, std::span<const NodeIndex>(job.nodes)})
        for (const NodeIndex node : nodes)
            if (std::ssize(stay) < to.nodes && !has(stay, node)) stay.push_back(node);
    std::sort(stay.begin(), stay.end());
    return stay;
}

bool pays_to_leave(const JobState& job, double factor, const RestartCost& restart) {
    if (!job.current) return false;
    const double limit_s = job.time_limit_s > 0 ? job.time_limit_s : unlimited_s;
    const double left_s = job.remaining_iterations > 0
                              ? job.remaining_iterations * job.current->estimate.iteration_s
                              : limit_s;
    return left_s * (factor - 1) > 2 * restart.seconds(job.current->grid.gpus(), job.moves_took_s);
}

bool has_room_elsewhere(const JobState& job, const Snapshot& snapshot) {
    if (!job.current) return false;
    const Grid& grid = job.current->grid;
    const auto& set = snapshot.node_sets[job.node_set];
    // Of pieces that differ each would find room where the largest does.
    const auto fits = [&](NodeIndex index) {
        const NodeState& node = snapshot.nodes[index];
        const auto at = std::find(job.nodes.begin(), job.nodes.end(), index) - job.nodes.begin();
        const std::int64_t own =
            at < std::ssize(job.nodes) ? grid.gpus_on(static_cast<std::size_t>(at)) : 0;
        return node.gpu_type == grid.gpu_type && node.free_gpus + own >= grid.gpus_per_node;
    };
    return std::count_if(set.begin(), set.end(), fits) >= grid.nodes;
}

}  // namespace arena
