// SPDX-License-Identifier: GPL-2.0-or-later
// See worth.h.
#include "policy/arena/worth.h"

#include <cmath>
#include <limits>

namespace arena {
namespace {

/// An offer is worth the inverse of its time by the power of 1.25: above 1, so that who ends soon
/// goes first by more than its hours alone say, and what a job gains by more GPUs counts for more,
/// the faster it is already. Two roots cost a fifth of std::pow(), in each round for each offer of
/// each job.
double sharpened(double x) { return x * std::sqrt(std::sqrt(x)); }

/// Of all GPUs of nodes that take jobs: what nobody may have is not in use.
double share_in_use(const Snapshot& snapshot) {
    std::int64_t all = 0, free = 0;
    for (const NodeState& node : snapshot.nodes) {
        if (!node.up) continue;
        all += node.total_gpus;
        free += node.free_gpus;
    }
    return all > 0 ? 1 - static_cast<double>(free) / static_cast<double>(all) : 0;
}

}  // namespace

bool has_starved(const JobState& job, double ran_s, bool runs, const ArenaRules& rules) {
    const auto starts_before = static_cast<double>(job.restarts - (runs ? 1 : 0));
    return job.age_s - ran_s >
           rules.starving_s * std::clamp(1 + starts_before, 1.0, rules.most_starving_bounds);
}

Worth::Worth(const Problem& problem, const Offers& offers, const ArenaRules& rules,
             const Turn* turn)
    : problem_(problem),
      options_(problem.options()),
      rules_(rules),
      turn_(turn),
      lowest_priority_(std::numeric_limits<double>::infinity()),
      highest_priority_(-lowest_priority_) {
    double waiting = 0, all = 0;
    auto at = offers.begin();
    for (const JobState& job : problem.snapshot().jobs) {
        if (job.ordinary || (job.phase == JobPhase::running && !job.elastic)) continue;
        at = find_from(offers, at, job.id);
        if (at == offers.end() || at->second.empty()) continue;
        lowest_priority_ = std::min(lowest_priority_, job.priority);
        highest_priority_ = std::max(highest_priority_, job.priority);
        waiting += job.phase == JobPhase::pending ? 1 : 0;
        all += 1;
    }
    const double crowd = all > 0 ? std::min(1.0, waiting / all / rules.few_waiting_share) : 0;
    change_bonus_ = rules.least_bonus + crowd * (rules.most_bonus - rules.least_bonus);
    const double used = share_in_use(problem.snapshot());
    boot_charge_ = 1 + used * used * (rules.crowded_boots - 1);
}

bool Worth::is_starving(const Task& task) const {
    if (task.job->ordinary || (task.job->behind_ordinary && !task.runs())) return false;
    if (turn_ != nullptr && task.job->due_s > 0)
        return turn_->keeping.now[static_cast<std::size_t>(&task - problem_.tasks().data())];
    const JobState& job = *task.job;
    const double ran_s = task.runs() ? problem_.snapshot().time_s - job.start_s : 0;
    if (task.runs() && (job.start_s <= 0 || ran_s > rules_.starving_quantum_s)) return false;
    return has_starved(job, ran_s, task.runs(), rules_);
}

double Worth::weight(const Task& task) const {
    const JobState& job = *task.job;
    double weight = 1;
    if (highest_priority_ > lowest_priority_) {
        // that of an ordinary job may lie outside
        const double above = std::clamp(job.priority, lowest_priority_, highest_priority_);
        weight += (rules_.most_priority_weight - 1) * (above - lowest_priority_) /
                  (highest_priority_ - lowest_priority_);
    }
    if (is_starving(task)) weight *= rules_.starving_weight;
    if (options_.objective == Objective::jct) return weight;
    const double fastest = task.fastest_s;
    weight *= fastest;
    if (options_.objective == Objective::throughput) return weight;
    const std::int32_t asked = problem_.requested(task);
    const double alone_s = (job.done_iterations + task.remaining) *
                           (asked < 0 ? fastest : problem_.choice(asked).iteration_s);
    const double slowdown = (job.age_s + task.remaining * fastest) / std::max(alone_s, 1e-9);
    return weight * std::pow(slowdown, rules_.fairness_power);
}

double Worth::value(const Task& task, double weight, const Choice& choice, bool here,
                    double boot_node_s) const {
    return rate(task, weight, time_s(task, choice, here, boot_node_s)) *
           bonus(task, choice, here, boot_node_s);
}

double Worth::time_s(const Task& task, const Choice& choice, bool here, double boot_node_s) const {
    const double left_s = Problem::time_left_s(task, choice);
    if (here) return left_s + problem_.restart_left_s(task);
    const double restart_s = task.restart_s(options_.restart, choice.gpus);
    return left_s + (task.runs() ? rules_.charged_restarts : 1) * restart_s +
           boot_charge_ * boot_node_s;
}

double Worth::stay_charge(const Task& task, const Choice& choice, double restarts,
                          double boot_node_s) const {
    if (options_.objective != Objective::jct) return 1;
    const auto starts =
        static_cast<double>(std::max<std::int64_t>(0, task.job->restarts - rules_.free_starts));
    const double restart_s =
        task.restart_s(options_.restart, choice.gpus) + boot_charge_ * boot_node_s;
    return 1 + restarts * restart_s * starts / (rules_.short_s + task.job->age_s);
}

double Worth::bonus(const Task& task, const Choice& choice, bool here, double boot_node_s) const {
    if (!task.runs()) return 1;
    if (here) return rules_.momentum * change_bonus_;
    const bool same_type = choice.type == problem_.choice(task.current).type;
    return rules_.momentum / (same_type ? 1 : change_bonus_) /
           stay_charge(task, choice, rules_.charged_restarts, boot_node_s);
}

double Worth::rate(const Task& task, double weight, double time_s) const {
    // Without an end in sight only the speed counts, and what a restart costs of it.
    if (options_.objective != Objective::jct) return weight * task.remaining / time_s;
    const double least_s =
        task.remaining * task.fastest_s + options_.restart.longest_s(task.job->moves_took_s);
    return weight *
           sharpened(least_s / time_s / (std::min(least_s, rules_.long_s) + rules_.short_s));
}

}  // namespace arena
