// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim/slow/slow_effect.h"

#include <algorithm>

#include "slowdown/micro_batches.h"

namespace arena::sim {
namespace {

using slowdown::Cause;

bool is_at(const Device& device, NodeIndex node, std::span<const std::int64_t> gpus) {
    return device.first == node &&
           (gpus.empty() || std::find(gpus.begin(), gpus.end(), device.second) != gpus.end());
}

bool has_link(const SlowJob& job, const Slowdown& slow) {
    const std::vector<std::int64_t> other =
        slow.peer_gpu == every_gpu ? std::vector<std::int64_t>{} : std::vector{slow.peer_gpu};
    bool here = false, there = false;
    int ends = 0;
    for (const Device& device : job.devices) {
        const bool at_one = is_at(device, slow.node, slow.gpus);
        const bool at_other = is_at(device, slow.peer, other);
        here = here || at_one;
        there = there || at_other;
        ends += at_one || at_other;
    }
    return here && there && ends > 1;
}

double compute_share(const SlowJob& job) {
    return job.communication_share < 0 ? 1 : 1 - job.communication_share;
}

/// Whether its micro-batches can be split unevenly.
bool is_split(const SlowJob& job) {
    const Plan& plan = job.plan;
    const auto ranks = static_cast<std::int64_t>(job.devices.size());
    return plan.pp() >= 1 && plan.dp() > 1 && plan.num_micro_batches > 1 &&
           plan.pp() * plan.dp() * plan.tp() * plan.cp == ranks;
}

/// The slowest GPU of each replica: all of a replica work on its micro-batches.
std::vector<double> replicas(const SlowJob& job, const SlowParts& parts) {
    const auto dp = static_cast<std::size_t>(job.plan.dp());
    const auto inner = static_cast<std::size_t>(job.plan.tp() * job.plan.cp);
    std::vector<double> slowest(dp, 1);
    for (std::size_t rank = 0; rank < parts.ranks.size(); ++rank) {
        double& replica = slowest[rank / inner % dp];
        replica = std::max(replica, parts.ranks[rank]);
    }
    return slowest;
}

}  // namespace

double SlowParts::compute() const {
    return ranks.empty() ? 1 : *std::max_element(ranks.begin(), ranks.end());
}

bool meets(const SlowJob& job, const Slowdown& slow) {
    if (slow.cause == Cause::communication) return has_link(job, slow);
    return std::any_of(job.devices.begin(), job.devices.end(),
                       [&](const Device& device) { return is_at(device, slow.node, slow.gpus); });
}

SlowParts slow_parts(const SlowJob& job, std::span<const Slowdown> active) {
    SlowParts parts{.ranks = std::vector<double>(job.devices.size(), 1.0)};
    for (const Slowdown& slow : active) {
        if (slow.cause == Cause::communication) {
            if (has_link(job, slow))
                parts.communication = std::max(parts.communication, slow.factor);
            continue;
        }
        const double factor =
            slow.factor + slow.delay_s / (job.iteration_s * std::max(compute_share(job), 1e-9));
        for (std::size_t rank = 0; rank < job.devices.size(); ++rank)
            if (is_at(job.devices[rank], slow.node, slow.gpus))
                parts.ranks[rank] = std::max(parts.ranks[rank], factor);
    }
    return parts;
}

double slow_iteration_s(const SlowJob& job, const SlowParts& parts,
                        std::span<const std::int64_t> counts) {
    double compute = parts.compute();
    if (!counts.empty()) {
        const std::vector<double> times = replicas(job, parts);
        const auto even = static_cast<double>(job.plan.num_micro_batches + job.plan.pp() - 1);
        compute = slowdown::greatest_time(times, counts, job.plan.pp()) / even;
    }
    if (job.communication_share < 0)
        return job.iteration_s * std::max(compute, parts.communication);
    return job.iteration_s *
           (compute_share(job) * compute + job.communication_share * parts.communication);
}

std::vector<std::int64_t> best_split(const SlowJob& job, const SlowParts& parts) {
    if (!is_split(job)) return {};
    const auto split = slowdown::split_micro_batches(
        replicas(job, parts), job.plan.dp() * job.plan.num_micro_batches, job.plan.pp());
    return split ? split->counts : std::vector<std::int64_t>{};
}

}  // namespace arena::sim
