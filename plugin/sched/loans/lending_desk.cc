// SPDX-License-Identifier: GPL-2.0-or-later
// See lending_desk.h.
#include "plugin/sched/loans/lending_desk.h"

#include <algorithm>
#include <set>

namespace arena {
namespace {

/// A node with several GPU types is one server, of its first type, with all its GPUs.
struct Server {
    const NodeState* node;
    std::int64_t gpus;
};
using States = std::map<std::string, Server>;

bool is_in(const std::vector<std::string>& sorted, const std::string& name) {
    return std::binary_search(sorted.begin(), sorted.end(), name);
}

InferencePool& pool_of(std::vector<InferencePool>& pools, const NodeState& node) {
    for (InferencePool& pool : pools)
        if (pool.gpu_type == node.gpu_type) return pool;
    InferencePool& pool = pools.emplace_back();
    pool.gpu_type = node.gpu_type;
    return pool;
}

/// Of the job that waits: what it asks for, or all of so many nodes.
double asked_gpus(const LoanFacts::Job& job, const InferencePool& pool) {
    return static_cast<double>(job.gpus > 0 ? job.gpus : job.nodes_asked * pool.gpus_per_server);
}

void count_waiting(const LoanFacts::Job& job, std::vector<InferencePool>& pools) {
    const auto named = std::find_if(pools.begin(), pools.end(), [&](const InferencePool& pool) {
        return pool.gpu_type == job.gpu_type;
    });
    const auto largest =
        std::max_element(pools.begin(), pools.end(),
                         [](const auto& a, const auto& b) { return a.servers < b.servers; });
    const auto at = named == pools.end() ? largest : named;
    if (at != pools.end()) at->wanted_gpus += asked_gpus(job, *at);
}

void count_running(const LoanFacts::Job& job, const States& states,
                   std::vector<InferencePool>& pools) {
    for (const auto& [name, gpus] : job.nodes) {
        const auto at = states.find(name);
        if (at == states.end()) continue;
        InferencePool& pool = pool_of(pools, *at->second.node);
        pool.wanted_gpus += static_cast<double>(gpus > 0 ? gpus : at->second.gpus);
    }
}

}  // namespace

LendingRules lending_rules(const Config& config) {
    LendingRules rules;
    rules.tick_s = config.loan_tick_s;
    rules.horizon_s = config.loan_horizon_s;
    rules.headroom_percent = config.loan_headroom_percent;
    rules.headroom_nodes = config.loan_headroom_nodes;
    rules.deadline_s = config.loan_deadline_s;
    return rules;
}

std::vector<InferencePool> inference_pools(const LoanFacts& facts,
                                           const std::vector<NodeState>& nodes,
                                           const std::vector<std::string>& open,
                                           const std::vector<std::string>& leased) {
    std::set<std::string> owned, busy;
    for (const auto& [partition, names] : facts.inference) owned.insert(names.begin(), names.end());
    for (const LoanFacts::Job& job : facts.jobs)
        for (const auto& [name, gpus] : job.nodes) busy.insert(name);
    States states;
    std::vector<InferencePool> pools;
    for (NodeIndex n = 0; n < nodes.size(); ++n) {
        const NodeState& node = nodes[n];
        const std::int64_t gpus = gpus_of_node(nodes, n);
        if (!owned.contains(node.name) || gpus == 0 || node.same_node) continue;
        states.emplace(node.name, Server{&node, gpus});
        InferencePool& pool = pool_of(pools, node);
        const bool first = pool.gpus_per_server == 0;
        pool.gpus_per_server = first ? gpus : std::min(pool.gpus_per_server, gpus);
        if (node.up) ++pool.servers;
        if (is_in(open, node.name)) pool.lent.push_back(node.name);
        const bool free = node.up && !is_in(leased, node.name) && !busy.contains(node.name) &&
                          !facts.guards.contains(node.name);
        if (free) pool.idle.push_back(node.name);
    }
    for (const LoanFacts::Job& job : facts.jobs) {
        if (!job.inference) continue;
        if (job.pending)
            count_waiting(job, pools);
        else
            count_running(job, states, pools);
    }
    return pools;
}

std::vector<LendingDesk::Wish> LendingDesk::decide(const std::vector<InferencePool>& pools,
                                                   double steady_s) {
    const bool is_tick = steady_s >= next_tick_s_;
    if (is_tick) next_tick_s_ = steady_s + rules_.tick_s;
    std::vector<Wish> wishes;
    for (const InferencePool& pool : pools) {
        Type& type = types_.try_emplace(pool.gpu_type, Type{{}, Lender(rules_)}).first->second;
        type.history.add(steady_s, pool.wanted_gpus);
        const LendingStep step =
            type.lender.decide({.servers = pool.servers,
                                .gpus_per_server = pool.gpus_per_server,
                                .lent = static_cast<std::int64_t>(pool.lent.size()),
                                .peak_gpus = type.history.peak(rules_.horizon_s)},
                               is_tick);
        if (step.lend > 0 || step.reclaim > 0) wishes.push_back({&pool, step});
    }
    return wishes;
}

}  // namespace arena
