// SPDX-License-Identifier: GPL-2.0-or-later
// Slowdowns in a simulation: jobs run at the pace of their slowest part, find it out some
// iterations later, split their micro-batches or restart elsewhere once the slowdown has cost what
// that does (slowdown/ski_rental.h), and nodes that several jobs found slow are avoided. Leaves
// out swaps of roles (S3), which need the traffic of each link.
#include <algorithm>

#include "sim/simulation.h"

namespace arena::sim {
namespace {

using slowdown::Cause;
using slowdown::Priced;
using slowdown::Strategy;

/// A split that gains less is not worth its pause.
constexpr double least_gain = 0.05;

Cause cause_of(const SlowParts& parts) {
    return parts.compute() >= parts.communication ? Cause::compute : Cause::communication;
}

/// The nodes that the job had better leave: those of slow GPUs, or one end of a slow link.
std::vector<NodeIndex> slow_nodes(const SlowWatch& watch, const std::vector<Slowdown>& active,
                                  double threshold) {
    std::vector<NodeIndex> nodes;
    if (cause_of(watch.parts) == Cause::compute) {
        for (std::size_t rank = 0; rank < watch.parts.ranks.size(); ++rank)
            if (watch.parts.ranks[rank] >= threshold)
                nodes.push_back(watch.job.devices[rank].first);
    } else {
        for (const Slowdown& slow : active)
            if (slow.cause == Cause::communication && meets(watch.job, slow))
                nodes.push_back(slow.node);
    }
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
}

}  // namespace

double Simulation::next_slow_s() const {
    if (slow_ == nullptr) return never;
    double at_s = slow_->next_s();
    for (const Live& live : live_) at_s = std::min(at_s, live.slow.due_s);
    for (const auto& [job, left] : left_) at_s = std::min(at_s, left.until_s);
    return at_s;
}

double Simulation::loss_rate(const Live& live) const {
    return slow_ == nullptr ? 0 : 1 - live.slow.job.iteration_s / live.iteration_s;
}

/// Whether there is something to decide: GPUs are free, or nodes may be had again.
bool Simulation::advance_slowdowns() {
    const double now_s = snapshot_.time_s;
    const std::vector<NodeIndex> before = slow_->quarantined();
    if (slow_->advance(now_s)) {
        for (std::size_t at = 0; at < live_.size(); ++at)
            if (snapshot_.jobs[at].phase == JobPhase::running) reprice(at);
    }
    bool wanted = slow_->quarantined().size() < before.size();
    for (std::size_t at = 0; at < live_.size(); ++at)
        if (live_[at].slow.due_s <= now_s) wanted = answer(at) || wanted;
    const auto ended =
        std::erase_if(left_, [&](const auto& entry) { return entry.second.until_s <= now_s; });
    return wanted || ended > 0;
}

/// The job has got its GPUs, and begins on them.
void Simulation::place_slow(const JobState& job, Live& live) {
    const Profile& p = profile(live);
    SlowWatch& watch = live.slow = {};
    watch.job.devices = slow_->take(job.nodes, job.current->grid.gpus_per_node);
    watch.job.plan = p.offers[live.offer].plan;
    watch.job.iteration_s = live.iteration_s;
    watch.job.communication_share = p.communication_shares[live.offer];
    look_at_parts(live);
    live.iteration_s = slow_iteration_s(watch.job, watch.parts);
    follow(job, live);
}

void Simulation::leave_slow(Live& live) {
    if (slow_ == nullptr) return;
    slow_->give_back(live.slow.job.devices);
    live.slow = {};
}

void Simulation::look_at_parts(Live& live) {
    live.slow.parts = slow_parts(live.slow.job, slow_->active());
    for (const Slowdown& slow : slow_->active())
        if (meets(live.slow.job, slow)) slow_outcomes_[slow.row].jobs.insert(live.job);
}

/// From now on an iteration takes so long, after a pause.
void Simulation::change_pace(const JobState& job, Live& live, double pause_s) {
    settle(live, done_now(job, live));
    live.progress_s = std::max(live.progress_s, snapshot_.time_s) + pause_s;
    live.iteration_s = slow_iteration_s(live.slow.job, live.slow.parts, live.slow.counts);
    slow_sums_.lost_gpu_s += pause_s * static_cast<double>(live.slow.job.devices.size());
    completions_.push(
        {live.progress_s + (live.work - live.done) * live.iteration_s, job.id, live.version});
}

void Simulation::reprice(std::size_t at) {
    Live& live = live_[at];
    look_at_parts(live);
    if (slow_iteration_s(live.slow.job, live.slow.parts, live.slow.counts) != live.iteration_s)
        change_pace(snapshot_.jobs[at], live, 0);
    follow(snapshot_.jobs[at], live);
}

/// What its pace means for what is known of it.
void Simulation::follow(const JobState& job, Live& live) {
    if (options_.slowdown.mode == SlowdownMode::off) return;
    SlowWatch& watch = live.slow;
    const bool slow = slow_iteration_s(watch.job, watch.parts) >=
                      options_.slowdown.threshold * watch.job.iteration_s;
    const bool known = watch.stage == SlowStage::detected || watch.stage == SlowStage::relieved;
    const SlowStage stage = slow ? (known ? SlowStage::detected : SlowStage::suspected)
                                 : (known ? SlowStage::relieved : SlowStage::healthy);
    const bool changed = stage != std::exchange(watch.stage, stage);
    if (stage == SlowStage::detected) return set_next_answer(job, live);
    if (!changed) return;
    watch.due_s = stage == SlowStage::healthy
                      ? never
                      : std::max(snapshot_.time_s, live.progress_s) +
                            options_.slowdown.latency_iterations * live.iteration_s;
}

/// What is due for the job; whether it gave its GPUs back.
bool Simulation::answer(std::size_t at) {
    Live& live = live_[at];
    SlowWatch& watch = live.slow;
    watch.due_s = never;
    switch (watch.stage) {
        case SlowStage::suspected:
            detect(snapshot_.jobs[at], live);
            return false;
        case SlowStage::relieved:
            watch.stage = SlowStage::healthy;
            watch.counts.clear();
            change_pace(snapshot_.jobs[at], live, 0);
            watch.lost_s = 0;
            return false;
        case SlowStage::detected:
            if (watch.next == Strategy::restart) {
                restart(at);
                return true;
            }
            watch.counts = best_split(watch.job, watch.parts);
            ++slow_sums_.splits;
            note_answer(live, "S2");
            change_pace(snapshot_.jobs[at], live, live.iteration_s);
            set_next_answer(snapshot_.jobs[at], live);
            return false;
        case SlowStage::healthy:
            break;
    }
    return false;
}

void Simulation::note_answer(const Live& live, std::string_view name) {
    for (const Slowdown& slow : slow_->active())
        if (meets(live.slow.job, slow)) slow_outcomes_[slow.row].answers.insert(std::string(name));
}

void Simulation::detect(const JobState& job, Live& live) {
    SlowWatch& watch = live.slow;
    watch.stage = SlowStage::detected;
    ++slow_sums_.detected;
    for (const Slowdown& slow : slow_->active()) {
        double& detected_s = slow_outcomes_[slow.row].detected_s;
        if (detected_s < 0 && meets(watch.job, slow)) detected_s = snapshot_.time_s;
    }
    if (cause_of(watch.parts) == Cause::compute)
        slow_->note(job.id, slow_nodes(watch, slow_->active(), options_.slowdown.threshold),
                    snapshot_.time_s);
    change_pace(job, live, options_.slowdown.validate_s);
    set_next_answer(job, live);
}

/// Whether the job's GPUs are to be had without the nodes that are slow for it.
bool Simulation::has_other_place(const JobState& job, const Live& live) const {
    const std::vector<NodeIndex> slow =
        slow_nodes(live.slow, slow_->active(), options_.slowdown.threshold);
    const auto is_in = [](const std::vector<NodeIndex>& nodes, NodeIndex n) {
        return std::find(nodes.begin(), nodes.end(), n) != nodes.end();
    };
    std::int64_t gpus = 0;
    for (NodeIndex n = 0; n < snapshot_.nodes.size(); ++n)
        if (snapshot_.nodes[n].up && snapshot_.nodes[n].gpu_type == job.current->grid.gpu_type &&
            !is_in(slow, n) && !is_in(slow_->quarantined(), n))
            gpus += snapshot_.nodes[n].total_gpus;
    return gpus >= job.current->grid.gpus();
}

/// The cheapest answer that helps, once the event has cost as much as it does.
void Simulation::set_next_answer(const JobState& job, Live& live) {
    SlowWatch& watch = live.slow;
    watch.due_s = never;
    if (options_.slowdown.mode != SlowdownMode::mitigate) return;
    std::vector<Priced> available;
    const std::vector<std::int64_t> counts = best_split(watch.job, watch.parts);
    if (!counts.empty() &&
        slow_iteration_s(watch.job, watch.parts, counts) < (1 - least_gain) * live.iteration_s)
        available.push_back({Strategy::micro_batches, live.iteration_s});
    if (job.elastic && live.iteration_s >= options_.slowdown.threshold * watch.job.iteration_s &&
        has_other_place(job, live))
        available.push_back(
            {Strategy::restart, policy_options_.restart.seconds(job.current->grid.gpus())});
    const std::vector<Priced> helpful = slowdown::candidates(cause_of(watch.parts), available);
    if (helpful.empty()) return;
    watch.next = helpful.front().strategy;
    const double rate = loss_rate(live), now_s = snapshot_.time_s;
    const double lost_s = watch.lost_s + std::max(0.0, now_s - live.progress_s) * rate;
    watch.due_s = std::max(now_s, live.progress_s) +
                  std::max(0.0, helpful.front().overhead_s - lost_s) / rate;
}

void Simulation::restart(std::size_t at) {
    Live& live = live_[at];
    const double cost_s = policy_options_.restart.seconds(snapshot_.jobs[at].current->grid.gpus());
    left_[snapshot_.jobs[at].id] = {
        slow_nodes(live.slow, slow_->active(), options_.slowdown.threshold),
        snapshot_.time_s + options_.slowdown.rules.recheck_s};
    note_answer(live, "S4");
    ++slow_sums_.restarts;
    slow_sums_.lost_gpu_s += cost_s * static_cast<double>(live.slow.job.devices.size());
    give_up(at);
}

/// Each job's nodes: without those that are avoided by all or by it, but for those that it has.
void Simulation::restrict_nodes() {
    if (slow_ == nullptr) return;
    snapshot_.node_sets.resize(1);
    std::map<std::vector<NodeIndex>, std::uint32_t> sets{{{}, 0}};
    for (JobState& job : snapshot_.jobs) {
        std::vector<NodeIndex> avoided = slow_->quarantined();
        if (const auto left = left_.find(job.id); left != left_.end())
            avoided.insert(avoided.end(), left->second.nodes.begin(), left->second.nodes.end());
        std::erase_if(avoided, [&](NodeIndex n) {
            return std::find(job.nodes.begin(), job.nodes.end(), n) != job.nodes.end();
        });
        std::sort(avoided.begin(), avoided.end());
        avoided.erase(std::unique(avoided.begin(), avoided.end()), avoided.end());
        const auto next = static_cast<std::uint32_t>(snapshot_.node_sets.size());
        const auto [at, is_new] = sets.emplace(avoided, next);
        job.node_set = at->second;
        if (!is_new) continue;
        std::vector<NodeIndex>& nodes = snapshot_.node_sets.emplace_back();
        std::set_difference(snapshot_.node_sets[0].begin(), snapshot_.node_sets[0].end(),
                            avoided.begin(), avoided.end(), std::back_inserter(nodes));
    }
}

void Simulation::finish_slow(Metrics& metrics) {
    if (slow_ == nullptr) return;
    slow_sums_.mode = to_string(options_.slowdown.mode);
    slow_sums_.most_quarantined = static_cast<std::int64_t>(slow_->most_quarantined());
    for (std::size_t row = 0; row < slow_->begun(); ++row) {
        const SlowOutcome& outcome = slow_outcomes_[row];
        ++slow_sums_.events;
        slow_sums_.met += outcome.jobs.empty() ? 0 : 1;
        slow_sums_.outcomes.push_back(outcome);
    }
    metrics.slow = std::move(slow_sums_);
}

}  // namespace arena::sim
