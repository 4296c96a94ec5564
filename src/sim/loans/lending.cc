// SPDX-License-Identifier: GPL-2.0-or-later
// See lending.h.
#include "sim/loans/lending.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/text.h"

namespace arena::sim {
namespace {

/// Jobs that any choice preempts, where it preempts so much weight: none counts for more than the
/// heaviest does.
std::int64_t least_jobs(const ReclaimProblem& problem, double least_weight) {
    double heaviest = 1;
    for (const auto& job : problem.jobs) heaviest = std::max(heaviest, job.weight);
    return std::llround(std::ceil(least_weight / heaviest - 1e-9));
}

}  // namespace

Result<Lending> Lending::make(const std::vector<NodeState>& nodes,
                              const std::vector<NodeIndex>& inference, const LoanOptions& options,
                              const RestartCost& restart) {
    Lending out(options, restart);
    out.nodes_ = inference;
    out.returns_.resize(inference.size());
    out.ledger_ = LoanLedger(inference.size());
    out.metrics_.lend = options.lend;
    if (inference.empty())
        return usage_error("no node of the cluster is inference's: say inference: true at some",
                           "--inference");
    if (const Status status = out.make_pools(nodes); !status) return status.error();
    return out;
}

Status Lending::make_pools(const std::vector<NodeState>& nodes) {
    for (std::size_t s = 0; s < nodes_.size(); ++s) {
        const NodeState& node = nodes[nodes_[s]];
        auto pool = std::find_if(pools_.begin(), pools_.end(),
                                 [&](const Pool& p) { return p.gpu_type == node.gpu_type; });
        if (pool == pools_.end()) {
            pools_.push_back({.gpu_type = node.gpu_type,
                              .gpus_per_server = node.total_gpus,
                              .lender = Lender(options_.rules)});
            pool = std::prev(pools_.end());
        }
        if (pool->gpus_per_server != node.total_gpus)
            return usage_error(fmt::format("inference nodes of type {} have {} and {} GPUs",
                                           node.gpu_type, pool->gpus_per_server, node.total_gpus),
                               "--inference");
        pool->servers.push_back(s);
        ++metrics_.inference_servers;
        metrics_.inference_gpus += node.total_gpus;
    }
    const auto& loads = options_.curve.loads;
    const bool untyped = loads.size() == 1 && loads.front().gpu_type.empty();
    if (loads.size() != pools_.size())
        return usage_error(fmt::format("{} GPU types in the curve, and {} among inference's nodes",
                                       loads.size(), pools_.size()),
                           "--inference");
    for (Pool& pool : pools_) {
        const auto load = std::find_if(loads.begin(), loads.end(), [&](const InferenceLoad& l) {
            return untyped || l.gpu_type == pool.gpu_type;
        });
        if (load == loads.end())
            return usage_error(
                fmt::format("the curve has no row of GPU type {}", printable(pool.gpu_type)),
                "--inference");
        pool.load = static_cast<std::size_t>(load - loads.begin());
    }
    return Done{};
}

void Lending::begin(Snapshot& snapshot) {
    for (const NodeIndex n : nodes_) {
        snapshot.nodes[n].up = false;
        std::erase(snapshot.node_sets[0], n);
    }
    close(snapshot);
}

void Lending::close(Snapshot& snapshot) const {
    for (std::size_t s = 0; s < nodes_.size(); ++s)
        if (!ledger_.is_trainings(static_cast<NodeIndex>(s)))
            snapshot.nodes[nodes_[s]].free_gpus = 0;
}

double Lending::next_event_s(double now_s) const {
    double at_s = next_tick_s_;
    for (const InferenceLoad& load : options_.curve.loads)
        at_s = std::min(at_s, load.next_change_s(now_s));
    for (const Return& back : returns_) at_s = std::min({at_s, back.home_s, back.leave_s});
    return std::max(at_s, now_s);
}

std::int64_t Lending::needed_servers(const Pool& pool) const {
    return static_cast<std::int64_t>(
        std::ceil(pool.needed_gpus / static_cast<double>(pool.gpus_per_server) - 1e-9));
}

std::vector<std::size_t> Lending::with_state(const Pool& pool, LeaseState state) const {
    std::vector<std::size_t> list;
    for (const std::size_t s : pool.servers) {
        const Lease* lease = ledger_.lease(static_cast<NodeIndex>(s));
        if (lease != nullptr && lease->state == state) list.push_back(s);
    }
    return list;
}

std::int64_t Lending::home(const Pool& pool) const {
    return std::count_if(pool.servers.begin(), pool.servers.end(), [&](std::size_t s) {
        return ledger_.is_inferences(static_cast<NodeIndex>(s));
    });
}

void Lending::account_shortage(Pool& pool, double from_s, double to_s) {
    const auto servers = static_cast<std::int64_t>(pool.servers.size());
    const std::int64_t needed = needed_servers(pool), has = home(pool);
    metrics_.unmet_server_s +=
        static_cast<double>(std::max<std::int64_t>(0, needed - servers)) * (to_s - from_s);
    const std::int64_t missing = std::min(needed, servers) - has;
    if (missing <= 0) {
        pool.short_since_s = -1;
        return;
    }
    if (pool.short_since_s < 0) pool.short_since_s = from_s;
    metrics_.short_server_s += static_cast<double>(missing) * (to_s - from_s);
    const double late_from_s = std::max(from_s, pool.short_since_s + options_.rules.deadline_s);
    metrics_.short_late_s += std::max(0.0, to_s - late_from_s);
}

/// Adds up what was so since the last event.
void Lending::account(double now_s) {
    for (Pool& pool : pools_) {
        const auto per_server = static_cast<double>(pool.gpus_per_server);
        const double has = static_cast<double>(home(pool)) * per_server;
        metrics_.inference_gpu_s += std::min(pool.needed_gpus, has) * (now_s - now_s_);
        metrics_.lent_gpu_s += static_cast<double>(with_state(pool, LeaseState::lent).size()) *
                               per_server * (now_s - now_s_);
        account_shortage(pool, now_s_, now_s);
    }
    now_s_ = now_s;
}

/// The snapshot's node as the ledger has it.
void Lending::show(std::size_t server, Snapshot& snapshot) const {
    const NodeIndex n = nodes_[server];
    NodeState& node = snapshot.nodes[n];
    auto& set = snapshot.node_sets[0];
    const Lease* lease = ledger_.lease(static_cast<NodeIndex>(server));
    const bool is_trainings = ledger_.is_trainings(static_cast<NodeIndex>(server));
    node.lent = lease == nullptr ? "" : loan_name(lease->loan);
    node.returning_s = lease == nullptr || is_trainings ? 0 : static_cast<double>(lease->until_s);
    node.up = is_trainings;
    const auto at = std::lower_bound(set.begin(), set.end(), n);
    const bool is_in = at != set.end() && *at == n;
    if (is_trainings && !is_in) {
        set.insert(at, n);
        node.free_gpus = node.total_gpus;
    } else if (!is_trainings && is_in) {
        set.erase(at);
    }
}

void Lending::take_home(Snapshot& snapshot) {
    for (std::size_t s = 0; s < nodes_.size(); ++s) {
        if (returns_[s].home_s > now_s_) continue;
        returns_[s] = {};
        const Lease lease = *ledger_.lease(static_cast<NodeIndex>(s));
        metrics_.late_returns += now_s_ > static_cast<double>(lease.until_s) ? 1 : 0;
        ++metrics_.servers_returned;
        ledger_.vacated(lease.loan, static_cast<NodeIndex>(s));
        show(s, snapshot);
    }
}

void Lending::lend(Pool& pool, std::int64_t servers, Snapshot& snapshot) {
    LoanLedger::Offer offer{.loan = ledger_.next_loan(), .at_s = std::llround(now_s_)};
    for (const std::size_t s : pool.servers) {
        if (static_cast<std::int64_t>(offer.nodes.size()) == servers) break;
        if (ledger_.is_inferences(static_cast<NodeIndex>(s)))
            offer.nodes.push_back(static_cast<NodeIndex>(s));
    }
    const std::vector<NodeIndex> lent = ledger_.offer(offer);
    metrics_.loans += lent.empty() ? 0 : 1;
    metrics_.servers_lent += static_cast<std::int64_t>(lent.size());
    for (const NodeIndex s : lent) show(s, snapshot);
}

void Lending::reclaim(Pool& pool, std::int64_t servers, Snapshot& snapshot, const Offers& offers,
                      std::vector<Action>& moves) {
    const std::vector<std::size_t> lent = with_state(pool, LeaseState::lent);
    std::vector<NodeIndex> nodes;
    for (const std::size_t s : lent) nodes.push_back(nodes_[s]);
    const auto wanted = static_cast<std::size_t>(servers);
    const auto deadline_s = std::floor(now_s_ + options_.rules.deadline_s);
    const double within_s = deadline_s - restart_.checkpoint_s - now_s_;
    const bool is_short = needed_servers(pool) > home(pool);  // else it asks for what it will need
    const EndsInTime ends{.within_s = options_.let_end && !is_short ? std::max(0.0, within_s) : 0,
                          .restart_s = restart_.checkpoint_s + restart_.launch_cap_s};
    const ReclaimView view = reclaim_view(snapshot, offers, nodes, wanted, true, ends);
    const ReclaimAnswer answer = choose_servers(view.problem, options_.reclaim);
    if (options_.watch && !view.jobs.empty())
        options_.watch(reclaim_view(snapshot, offers, nodes, wanted, true).problem, answer);
    ++metrics_.reclaims;
    metrics_.least_preemptions += least_jobs(view.problem, answer.least_weight);
    std::vector<Action> own = reclaim_moves(snapshot, offers, view, answer.returned, true);
    count(own);
    metrics_.let_end +=
        answer.cost.preemptions + answer.cost.scaled_in - static_cast<std::int64_t>(own.size());
    std::move(own.begin(), own.end(), std::back_inserter(moves));
    for (const ServerIndex chosen : answer.returned) {
        const std::size_t s = lent[chosen];
        const LoanNumber loan = ledger_.lease(static_cast<NodeIndex>(s))->loan;
        ledger_.reclaim({.loan = loan,
                         .nodes = {static_cast<NodeIndex>(s)},
                         .deadline_s = std::llround(deadline_s)});
        send_home(s, snapshot, view, deadline_s);
        show(s, snapshot);
    }
}

/// At once where it is empty, when its jobs have left it, or when those that are let run have
/// ended.
void Lending::send_home(std::size_t server, const Snapshot& snapshot, const ReclaimView& view,
                        double deadline_s) {
    const NodeIndex n = nodes_[server];
    const NodeState& node = snapshot.nodes[n];
    Return& back = returns_[server];
    back.moved_s = now_s_ + (node.free_gpus < node.total_gpus ? restart_.checkpoint_s : 0);
    bool is_held = false;
    for (std::size_t j = 0; j < view.jobs.size(); ++j) {
        const auto& held = snapshot.jobs[view.jobs[j]].nodes;
        is_held = is_held || (view.ends[j] && std::find(held.begin(), held.end(), n) != held.end());
    }
    if (is_held)
        back.leave_s = deadline_s - restart_.checkpoint_s;
    else
        back.home_s = back.moved_s;
}

void Lending::count(const std::vector<Action>& moves) {
    for (const Action& move : moves)
        (move.kind == ActionKind::preempt ? metrics_.preemptions : metrics_.scaled_in) += 1;
}

std::vector<Action> Lending::overdue(const Snapshot& snapshot, const Offers& offers) {
    account(snapshot.time_s);
    if (std::none_of(returns_.begin(), returns_.end(),
                     [](const Return& back) { return back.leave_s < never; }))
        return {};
    std::vector<bool> is_held(snapshot.nodes.size());
    for (const JobState& job : snapshot.jobs)
        for (const NodeIndex n : job.nodes) is_held[n] = true;
    std::vector<NodeIndex> nodes;
    for (std::size_t s = 0; s < nodes_.size(); ++s) {
        Return& back = returns_[s];
        const bool is_empty = !is_held[nodes_[s]];
        if (back.leave_s == never || (!is_empty && back.leave_s > now_s_)) continue;
        back.leave_s = never;
        back.home_s = is_empty ? std::max(now_s_, back.moved_s) : now_s_ + restart_.checkpoint_s;
        if (!is_empty) nodes.push_back(nodes_[s]);
    }
    if (nodes.empty()) return {};
    const ReclaimView view = reclaim_view(snapshot, offers, nodes, nodes.size(), true);
    std::vector<ServerIndex> all(nodes.size());
    std::iota(all.begin(), all.end(), ServerIndex{0});
    std::vector<Action> moves = reclaim_moves(snapshot, offers, view, all, true);
    metrics_.overstayed += static_cast<std::int64_t>(moves.size());
    count(moves);
    return moves;
}

void Lending::note(double now_s) {
    LoanMetrics::Moment moment{.time_s = now_s};
    for (const Pool& pool : pools_) {
        moment.needed += needed_servers(pool);
        moment.lent += static_cast<std::int64_t>(with_state(pool, LeaseState::lent).size());
        moment.returning +=
            static_cast<std::int64_t>(with_state(pool, LeaseState::returning).size());
    }
    metrics_.moments.push_back(moment);
}

std::vector<Action> Lending::advance(Snapshot& snapshot, const Offers& offers) {
    std::vector<Action> moves;
    take_home(snapshot);
    const bool is_tick = now_s_ >= next_tick_s_;
    while (next_tick_s_ <= now_s_) next_tick_s_ += options_.rules.tick_s;
    for (Pool& pool : pools_) {
        const double amount = options_.curve.loads[pool.load].at(now_s_);
        pool.needed_gpus =
            amount * (options_.curve.in_nodes ? static_cast<double>(pool.gpus_per_server) : 1.0);
        pool.history.add(now_s_, pool.needed_gpus);
        if (!options_.lend) continue;
        const LendingStep step = pool.lender.decide(
            {.servers = static_cast<std::int64_t>(pool.servers.size()),
             .gpus_per_server = pool.gpus_per_server,
             .lent = static_cast<std::int64_t>(with_state(pool, LeaseState::lent).size()),
             .peak_gpus = pool.history.peak(options_.rules.horizon_s)},
            is_tick);
        if (step.lend > 0) lend(pool, step.lend, snapshot);
        if (step.reclaim > 0) reclaim(pool, step.reclaim, snapshot, offers, moves);
    }
    take_home(snapshot);
    note(now_s_);
    return moves;
}

LoanMetrics Lending::finish(const Snapshot& snapshot, double held_gpu_s) {
    account(snapshot.time_s);
    std::int64_t gpus = 0;
    for (const NodeState& node : snapshot.nodes) gpus += node.total_gpus;
    const double all_s = snapshot.time_s * static_cast<double>(gpus);
    const double own_s = snapshot.time_s * static_cast<double>(gpus - metrics_.inference_gpus);
    metrics_.usage_both = all_s > 0 ? (held_gpu_s + metrics_.inference_gpu_s) / all_s : 0;
    metrics_.usage_training = own_s > 0 ? held_gpu_s / own_s : 0;
    return std::move(metrics_);
}

}  // namespace arena::sim
