// SPDX-License-Identifier: GPL-2.0-or-later
// Small clusters with a network, jobs and offers of one, for tests of what policies make of them.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>

#include "baselines/registry.h"
#include "suite.h"

namespace arena::test {

using Random = std::mt19937_64;
inline std::int64_t among(Random& random, std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

inline Offer offer_of(std::int64_t nodes, double iteration_s, SpanFactors slower = {1, 1}) {
    Offer o;
    o.grid = {"a40", nodes, 8, 1};
    o.plan.stage_layers = o.plan.stage_tp = {1};
    o.plan.stage_dp = {8 * nodes};
    o.estimate.iteration_s = iteration_s;
    o.estimate.samples_per_s = 1 / iteration_s;
    o.slower = slower;
    return o;
}

/// Pods of leaves of so many nodes, or blocks.
inline Snapshot cluster_of(std::int64_t pods, std::int64_t leaves, std::int64_t nodes,
                           NetworkKind kind = NetworkKind::tree) {
    Snapshot s;
    s.time_s = 1000;
    s.topology = kind;
    SwitchTable table;
    for (std::int64_t n = 0; n < pods * leaves * nodes; ++n) {
        NodeState node{"n" + std::to_string(n), "a40", 8, 8, 64, 640000};
        const std::string leaf = "l" + std::to_string(n / nodes);
        node.leaf = kind == NetworkKind::block
                        ? table.add({leaf})
                        : table.add({"core", "p" + std::to_string(n / nodes / leaves), leaf});
        s.nodes.push_back(std::move(node));
    }
    s.switches = table.take();
    s.node_sets.emplace_back(s.nodes.size());
    std::iota(s.node_sets[0].begin(), s.node_sets[0].end(), NodeIndex{0});
    return s;
}

inline JobState job_of(JobId id, double iterations = 1000) {
    JobState job;
    job.id = id;
    job.max_gpus = INT64_MAX;
    job.remaining_iterations = iterations;
    job.requested_type = "a40";
    return job;
}

/// Something else runs there, for so long.
inline void occupy(Snapshot& s, std::vector<NodeIndex> nodes, double left_s) {
    JobState runs = job_of(static_cast<JobId>(900 + s.jobs.size()), left_s);
    runs.phase = JobPhase::running;
    runs.current = offer_of(std::ssize(nodes), 1);
    runs.start_s = s.time_s - 500;
    runs.restarts = 1;
    for (const NodeIndex n : nodes) s.nodes[n].free_gpus = s.nodes[n].free_cpus = 0;
    runs.nodes = std::move(nodes);
    s.jobs.push_back(std::move(runs));
}

inline void says(const std::string& words, std::string_view wanted) {
    ck_assert_msg(words == wanted, "%s", words.c_str());
}

inline Decision decide(const Snapshot& s, const Offers& offers, std::string_view name = "arena",
                       const PolicyOptions& options = {}) {
    return std::ranges::find(policies(), name, &Policy::name)->decide(s, offers, options);
}

inline const Action* start_of(const Decision& d, JobId job) {
    for (const Action& action : d.actions)
        if (action.job == job && action.kind == ActionKind::start) return &action;
    return nullptr;
}

}  // namespace arena::test
