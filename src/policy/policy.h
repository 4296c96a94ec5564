// SPDX-License-Identifier: GPL-2.0-or-later
// The policy interface: a pure function from a snapshot and the offers of its jobs to a decision.
// The Slurm adapter, the simulator and `arena explain` drive the same function.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/decision.h"

namespace arena {

/// Seconds without progress after a change of a job's GPU set, the first start included: the
/// site's numbers, until two of the job's own moves say otherwise.
struct RestartCost {
    /// The site's at most, whatever moves took. Policies charge a move many times over: with more
    /// they are too careful (doc/policies.md), and nobody is to stay for ever by moving slowly.
    static constexpr double most_times = 2;
    double checkpoint_s = 30;  ///< write and read the checkpoint, >= 0
    double per_gpu_s = 10;     ///< launch, >= 0
    double launch_cap_s = 40;  ///< longest launch, >= 0
    [[nodiscard]] double launch_s(std::int64_t gpus) const {
        return std::min(per_gpu_s * static_cast<double>(gpus), launch_cap_s);
    }
    [[nodiscard]] double seconds(std::int64_t gpus) const { return checkpoint_s + launch_s(gpus); }
    /// Of this job: the median of what its last three moves took, where the site's stands for one
    /// that is missing; so no single move counts, whatever it took.
    [[nodiscard]] double seconds(std::int64_t gpus, const MovesTook& took) const {
        return middle(seconds(gpus), took);
    }
    /// With any number of GPUs.
    [[nodiscard]] double longest_s(const MovesTook& took) const {
        return middle(checkpoint_s + launch_cap_s, took);
    }
    bool operator==(const RestartCost&) const = default;

  private:
    static double middle(double site_s, const MovesTook& took) {
        if (took[1] == 0) return site_s;
        const auto a = static_cast<double>(took[0]), b = static_cast<double>(took[1]);
        const double c = took[2] > 0 ? static_cast<double>(took[2]) : site_s;
        return std::min(std::max(std::min(a, b), std::min(std::max(a, b), c)), most_times * site_s);
    }
};

/// What `arena` makes small or large: mean completion time, work per time, or the worst slow-down.
enum class Objective { jct, throughput, fairness };
std::string_view to_string(Objective);
std::optional<Objective> parse_objective(std::string_view);

/// Whose turn it is. priority: Slurm's order is kept, jobs that stand first are promised an end
/// (JobState::due_s), and policy `arena` decides within that; value: by values alone, in which
/// priorities only weigh.
enum class QueueOrder { priority, value };
std::string_view to_string(QueueOrder);
std::optional<QueueOrder> parse_queue_order(std::string_view);

struct PolicyOptions {
    std::int64_t reserve_depth = 1;  ///< waiting jobs that are released with a shape, >= 0
    std::uint64_t seed = 0;
    RestartCost restart = {};
    Objective objective = Objective::jct;
    QueueOrder order = QueueOrder::value;
    /// Order priority: jobs of one tier whose priorities differ by no more than this share of the
    /// largest present count as equal and stand by submission, 0 to 1.
    double priority_step = 0.05;
    std::int64_t search_steps = 200000;  ///< budget of a decision in candidates looked at, >= 1
    /// Account -> share of the GPUs while all accounts want more; empty = no shares. An account
    /// that is not named has a share of 1.
    std::map<std::string, double> shares = {};
    /// Since the caller's last decision: what is due at a time comes with the first decision after
    /// it, and once.
    double window_s = 300;
    bool any_layout = false;  ///< an offer holds for every equal split of its GPUs over nodes
    bool explain = true;      ///< fill Decision::waiting, and each Action::reason
    bool operator==(const PolicyOptions&) const = default;
};

/// Pure: same arguments, same decision. Each job gets at most one action. Starts and resizes never
/// use more than the GPUs, CPUs and memory that are free or that the decision's own resizes and
/// preemptions free, nor nodes outside the job's node set, nor any that is returning. Only running
/// jobs that are elastic and whose nodes the snapshot names are resized or preempted.
using PolicyFunction = Decision (*)(const Snapshot&, const Offers&, const PolicyOptions&);

struct Policy {
    std::string_view name;
    std::string_view summary;
    PolicyFunction decide;
    /// Nothing but an arrival or an end changes what it decides: not time alone.
    bool only_events = false;
};

}  // namespace arena
