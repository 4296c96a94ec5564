// SPDX-License-Identifier: GPL-2.0-or-later
// Inference beside the simulated training cluster: its load, who has its nodes, when they are lent
// and taken back, and what the jobs there do then. Leaves out: how inference spreads its replicas
// (it keeps to as few servers as its load needs) and the price of moving them.
#pragma once

#include <functional>
#include <string>

#include "core/decision.h"
#include "policy/loans/demand.h"
#include "policy/loans/ledger.h"
#include "policy/loans/reclaim.h"
#include "sim/loans/inference.h"
#include "sim/loans/loan_metrics.h"

namespace arena::sim {

struct LoanOptions {
    InferenceCurve curve;
    bool lend = true;  ///< else inference keeps its nodes
    LendingRules rules;
    ReclaimOptions reclaim;
    /// Sees each reclaim that takes servers from jobs; may be empty.
    std::function<void(const ReclaimProblem&, const ReclaimAnswer&)> watch;
};

class Lending {
  public:
    /// `nodes`: of the cluster; `inference`: which of them are inference's, ascending. A job needs
    /// checkpoint_s to leave a node. Errors: no node is inference's, a type of the curve that none
    /// of them has, one type or several where the other is needed, servers of one type of different
    /// size.
    static Result<Lending> make(const std::vector<NodeState>& nodes,
                                const std::vector<NodeIndex>& inference, const LoanOptions&,
                                double checkpoint_s);

    /// Takes inference's nodes out of what jobs may use.
    void begin(Snapshot&);
    [[nodiscard]] double next_event_s(double now_s) const;
    /// Up to the snapshot's time: nodes come and go in it; answers what jobs must do because of
    /// that. close() must follow when they did.
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
    explicit Lending(const LoanOptions& options) : options_(options), ledger_(0) {}
    Status make_pools(const std::vector<NodeState>& nodes);
    void account(double now_s);
    void account_shortage(Pool&, double from_s, double to_s);
    void take_home(Snapshot&);
    void lend(Pool&, std::int64_t servers, Snapshot&);
    void reclaim(Pool&, std::int64_t servers, Snapshot&, const Offers&, std::vector<Action>&);
    void show(std::size_t server, Snapshot&) const;
    void note(double now_s);
    [[nodiscard]] std::int64_t needed_servers(const Pool&) const;
    [[nodiscard]] std::vector<std::size_t> with_state(const Pool&, LeaseState) const;
    [[nodiscard]] std::int64_t home(const Pool&) const;

    LoanOptions options_;
    std::vector<NodeIndex> nodes_;   ///< inference's
    std::vector<double> home_at_s_;  ///< by node of nodes_, while returning
    LoanLedger ledger_;              ///< by position in nodes_
    std::vector<Pool> pools_;
    double checkpoint_s_ = 0, now_s_ = 0, next_tick_s_ = 0;
    LoanMetrics metrics_;
};

}  // namespace arena::sim
