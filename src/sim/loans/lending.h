// SPDX-License-Identifier: GPL-2.0-or-later
// Inference beside the simulated training cluster: its load, who has its nodes, when they are lent
// and taken back, and what the jobs there do then. Leaves out: how inference spreads its replicas
// (it keeps to as few servers as its load needs) and the price of moving them.
#pragma once

#include <functional>
#include <limits>
#include <string>

#include "core/decision.h"
#include "policy/loans/demand.h"
#include "policy/loans/ledger.h"
#include "policy/loans/reclaim_moves.h"
#include "policy/policy.h"
#include "sim/loans/inference.h"
#include "sim/loans/loan_metrics.h"

namespace arena::sim {

struct LoanOptions {
    InferenceCurve curve;
    bool lend = true;  ///< else inference keeps its nodes
    LendingRules rules;
    ReclaimOptions reclaim;
    /// Jobs that end before the deadline are let run, unless inference is short already.
    bool let_end = true;
    /// Sees each reclaim that takes servers from jobs: the problem as it is where no job is let
    /// end, and what was answered. May be empty.
    std::function<void(const ReclaimProblem&, const ReclaimAnswer&)> watch;
};

class Lending {
    static constexpr double never = std::numeric_limits<double>::infinity();

  public:
    /// `nodes`: of the cluster; `inference`: which of them are inference's, ascending. A job needs
    /// the checkpoint's seconds to leave a node. Errors: no node is inference's, a type of the
    /// curve that none of them has, one type or several where the other is needed, servers of one
    /// type of different size.
    static Result<Lending> make(const std::vector<NodeState>& nodes,
                                const std::vector<NodeIndex>& inference, const LoanOptions&,
                                const RestartCost&);

    /// Takes inference's nodes out of what jobs may use.
    void begin(Snapshot&);
    [[nodiscard]] double next_event_s(double now_s) const;
    /// Up to the snapshot's time: what jobs must do that were let run on returning nodes and have
    /// not ended in time. advance() must follow when they did.
    std::vector<Action> overdue(const Snapshot&, const Offers&);
    /// Nodes come and go in the snapshot; answers what jobs must do because of that. close() must
    /// follow when they did.
    std::vector<Action> advance(Snapshot&, const Offers&);
    /// Nothing is free on nodes that are not training's.
    void close(Snapshot&) const;
    /// held_gpu_s: by jobs, over the whole time.
    LoanMetrics finish(const Snapshot&, double held_gpu_s);

  private:
    struct Pool {
        std::string gpu_type;
        std::size_t load = 0;                   ///< of the curve
        std::vector<std::size_t> servers = {};  ///< into nodes_
        std::int64_t gpus_per_server = 0;
        DemandHistory history = {};
        Lender lender;
        double needed_gpus = 0;
        double short_since_s = -1;  ///< < 0: has what it needs
    };
    /// On its way home.
    struct Return {
        double home_s = never;   ///< when it is there; never: not known yet
        double leave_s = never;  ///< when jobs that were let run must leave it; never: none was
        double moved_s = 0;      ///< when those that had to move at once are gone
    };
    Lending(const LoanOptions& options, const RestartCost& restart)
        : options_(options), ledger_(0), restart_(restart) {}
    Status make_pools(const std::vector<NodeState>& nodes);
    void account(double now_s);
    void account_shortage(Pool&, double from_s, double to_s);
    void take_home(Snapshot&);
    void lend(Pool&, std::int64_t servers, Snapshot&);
    void reclaim(Pool&, std::int64_t servers, Snapshot&, const Offers&, std::vector<Action>&);
    void send_home(std::size_t server, const Snapshot&, const ReclaimView&, double deadline_s);
    void count(const std::vector<Action>& moves);
    void show(std::size_t server, Snapshot&) const;
    void note(double now_s);
    [[nodiscard]] std::int64_t needed_servers(const Pool&) const;
    [[nodiscard]] std::vector<std::size_t> with_state(const Pool&, LeaseState) const;
    [[nodiscard]] std::int64_t home(const Pool&) const;

    LoanOptions options_;
    std::vector<NodeIndex> nodes_;  ///< inference's
    std::vector<Return> returns_;   ///< by node of nodes_
    LoanLedger ledger_;             ///< by position in nodes_
    std::vector<Pool> pools_;
    RestartCost restart_;
    double now_s_ = 0, next_tick_s_ = 0;
    LoanMetrics metrics_;
};

}  // namespace arena::sim
