// SPDX-License-Identifier: GPL-2.0-or-later
// What a decision changes, and whether it keeps the contract of policy.h; what loans of nodes
// change between decisions. See simulation.h.
#include <algorithm>
#include <cmath>
#include <set>

#include "sim/simulation.h"

namespace arena::sim {

void Simulation::free_nodes(const JobState& job) {
    for (const NodeIndex n : job.nodes) {
        NodeState& node = snapshot_.nodes[n];
        node.free_gpus += job.current->grid.gpus_per_node;
        if (power_ && node.free_gpus == node.total_gpus) power_->note_idle(n, snapshot_.time_s);
    }
}

/// How long the last of them boots.
double Simulation::wake(const std::vector<NodeIndex>& nodes) {
    double boot_s = 0;
    for (const NodeIndex n : nodes)
        if (power_) boot_s = std::max(boot_s, power_->take(n, snapshot_.time_s));
    return boot_s;
}

void Simulation::tell_boots() {
    if (!power_) return;
    for (NodeIndex n = 0; n < snapshot_.nodes.size(); ++n)
        snapshot_.nodes[n].boot_s = power_->boot_s(n, snapshot_.time_s);
}

Result<std::uint32_t> Simulation::check_offer(const Action& action, const JobState& job,
                                              const Live& live) const {
    const auto& offers = profile(live).offers;
    const Grid& grid = action.offer.grid;
    if ((action.kind == ActionKind::start) != (job.phase == JobPhase::pending)) {
        return broken(action, "does not fit its state");
    }
    if (static_cast<std::int64_t>(action.nodes.size()) != grid.nodes || grid.gpus_per_node < 1) {
        return broken(action, "names a wrong number of nodes");
    }
    for (std::uint32_t i = 0; i < offers.size(); ++i) {
        if (offers[i].grid.gpu_type != grid.gpu_type || offers[i].grid.gpus() != grid.gpus() ||
            offers[i].segment != action.offer.segment)
            continue;
        // It holds for every split of its GPUs, but a segment is of nodes.
        if (offers[i].segment == 1 || offers[i].grid.nodes == grid.nodes) return i;
    }
    return broken(action, fmt::format("is no offer: {}", short_form(grid)));
}

Status Simulation::take_nodes(const Action& action) {
    NodeIndex previous = 0;
    for (std::size_t i = 0; i < action.nodes.size(); ++i) {
        const NodeIndex n = action.nodes[i];
        if (n >= snapshot_.nodes.size() || (i > 0 && n <= previous)) {
            return broken(action, "names nodes out of order or range");
        }
        NodeState& node = snapshot_.nodes[n];
        if (node.gpu_type != action.offer.grid.gpu_type ||
            node.free_gpus < action.offer.grid.gpus_per_node) {
            return broken(action, fmt::format("takes more than is free on {}", node.name));
        }
        node.free_gpus -= action.offer.grid.gpus_per_node;
        previous = n;
    }
    return Done{};
}

void Simulation::give_up(std::size_t at) {
    JobState& job = snapshot_.jobs[at];
    free_nodes(job);
    end_stay(job, live_[at], done_now(job, live_[at]));
    leave_slow(live_[at]);
    job.phase = JobPhase::pending;
    job.time_limit_s = live_[at].limit_s;
    job.current.reset();
    job.nodes.clear();
    job.start_s = 0;
    --running_;
}

Fabric Simulation::network_of(const Workload& workload) {
    Snapshot cluster;
    cluster.nodes = workload.nodes;
    cluster.topology = workload.topology;
    cluster.switches = workload.switches;
    return Fabric(cluster);
}

/// Where nothing is known of racks a plan that needs one is none.
SharedOffers Simulation::told_of(const Profile& profile) const {
    const auto needs_rack = [](const Offer& offer) { return offer.segment > 1; };
    if (!options_.ignore_network || std::ranges::none_of(profile.offers, needs_rack))
        return profile.offers;
    std::vector<Offer> told = profile.offers;
    std::erase_if(told, needs_rack);
    return told;
}

void Simulation::note_leaves(const Action& action) {
    if (!metrics_.network || action.nodes.size() < 2) return;
    std::set<std::int32_t> leaves;
    for (const NodeIndex n : action.nodes) leaves.insert(workload_.nodes[n].leaf);
    ++metrics_.network->placements;
    metrics_.network->in_one_leaf += leaves.size() == 1;
    metrics_.network->leaves += std::ssize(leaves);
    metrics_.network->need_domain += action.offer.segment > 1;
}

/// Of the GPUs that the job has now. A recorded run has its first start-up in it.
double Simulation::start_up_s(const JobState& job, const Live& live) const {
    if (workload_.jobs[live.job].recorded && job.restarts == 1) return 0;
    if (options_.true_restart_s) return *options_.true_restart_s;
    return policy_options_.restart.seconds(job.current->grid.gpus());
}

Status Simulation::begin(std::size_t at, const Action& action) {
    JobState& job = snapshot_.jobs[at];
    Live& live = live_[at];
    const Result<std::uint32_t> offer = check_offer(action, job, live);
    if (!offer) return offer.error();
    if (const Status status = take_nodes(action); !status) return status;
    if (!network_.keeps_segments(action.nodes, action.offer.segment))
        return broken(action, "splits nodes that its plan needs in one domain");
    job.phase = JobPhase::running;
    job.current = action.offer;
    job.nodes = action.nodes;
    job.start_s = snapshot_.time_s;
    job.patient_until_s = 0;
    note_leaves(action);
    ++job.restarts;
    ++metrics_.restarts;
    ++running_;
    live.offer = *offer;
    live.boot_s = wake(action.nodes);
    const double start_s = start_up_s(job, live);
    live.progress_s = snapshot_.time_s + live.boot_s + start_s;
    if (options_.measures_moves && job.restarts > 1)
        add_move(job.moves_took_s, std::max<std::int64_t>(std::llround(start_s), 1));
    live.iteration_s = profile(live).offers[*offer].iteration_s(network_.span_of(action.nodes)) *
                       Workload::time_factor(options_.errors, live.job, *offer);
    live.first_s = live.progress_s;
    if (slow_ != nullptr) place_slow(job, live);
    completions_.push(
        {live.progress_s + (live.work - live.done) * live.iteration_s, job.id, live.version});
    return Done{};
}

/// Everything that is given back is free before anything is taken.
Status Simulation::apply(const Decision& decision) {
    std::vector<std::pair<std::size_t, const Action*>> begins;
    for (const Action& action : decision.actions) {
        const bool moves = action.kind == ActionKind::resize || action.kind == ActionKind::preempt;
        if (!moves && action.kind != ActionKind::start) continue;
        const std::size_t at = find(action.job);
        if (at == snapshot_.jobs.size()) return broken(action, "names a job that is not there");
        JobState& job = snapshot_.jobs[at];
        if (moves && job.phase != JobPhase::running)
            return broken(action, "does not fit its state");
        if (moves && !job.elastic) return broken(action, "changes a job that is not elastic");
        const bool stays = action.kind == ActionKind::resize && job.nodes == action.nodes &&
                           job.current->grid.gpus_per_node == action.offer.grid.gpus_per_node &&
                           job.current->segment == action.offer.segment;
        if (stays) continue;  // the same GPU set and plan: nothing changes
        if (action.kind != ActionKind::preempt) begins.emplace_back(at, &action);
        if (moves) give_up(at);
    }
    for (const auto& [at, action] : begins) {
        Action as_start = *action;
        as_start.kind = ActionKind::start;
        if (const Status status = begin(at, as_start); !status) return status;
    }
    return Done{};
}

Status Simulation::begin_loans() {
    if (!options_.loans) return Done{};
    Result<Lending> lending = Lending::make(workload_.nodes, workload_.inference_nodes,
                                            *options_.loans, policy_options_.restart);
    if (!lending) return lending.error();
    lending_ = std::move(*lending);
    lending_->begin(snapshot_);
    return Done{};
}

/// Nodes come and go, and the jobs that stand on those that go move or stop at once.
Status Simulation::follow_loans() {
    if (!lending_) return Done{};
    update_jobs();
    if (const Status status = impose(lending_->overdue(snapshot_, offers_)); !status) return status;
    if (const Status status = impose(lending_->advance(snapshot_, offers_)); !status) return status;
    lending_->close(snapshot_);
    return Done{};
}

Status Simulation::impose(const std::vector<Action>& moves) {
    for (const Action& move : moves) {
        const std::size_t at = find(move.job);
        give_up(at);
        if (move.kind == ActionKind::preempt) continue;
        Action as_start = move;
        as_start.kind = ActionKind::start;
        if (const Status status = begin(at, as_start); !status) return status;
    }
    return Done{};
}

}  // namespace arena::sim
