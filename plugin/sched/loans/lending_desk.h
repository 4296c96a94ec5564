// SPDX-License-Identifier: GPL-2.0-or-later
// LendingDesk: how many nodes of each GPU type inference lends or wants back, by the running and
// waiting jobs of its own partitions. The rule is src/policy/loans/demand; here its inputs are
// counted. Pure: time is an argument.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/cluster.h"
#include "plugin/sched/host/loans.h"
#include "policy/loans/demand.h"
#include "site/config.h"

namespace arena {

LendingRules lending_rules(const Config& config);

/// Nodes of inference of one GPU type.
struct InferencePool {
    std::string gpu_type;
    std::int64_t gpus_per_server = 0;  ///< of the smallest
    std::vector<std::string> lent;     ///< and not asked back
    std::vector<std::string> idle;     ///< that could be lent now
    std::int64_t servers = 0;          ///< that work
    double wanted_gpus = 0;            ///< by its jobs
};

/// One per GPU type of inference's nodes that have GPUs. `lent`, `leased`: nodes, ascending.
/// A job that asks for no GPUs counts as its nodes; one that names no type counts against the pool
/// with most servers.
std::vector<InferencePool> inference_pools(const LoanFacts& facts,
                                           const std::vector<NodeState>& nodes,
                                           const std::vector<std::string>& open,
                                           const std::vector<std::string>& leased);

class LendingDesk {
  public:
    explicit LendingDesk(const LendingRules& rules) : rules_(rules) {}
    /// Once a round; `steady_s`: monotonic.
    struct Wish {
        const InferencePool* pool;
        LendingStep step;
    };
    std::vector<Wish> decide(const std::vector<InferencePool>& pools, double steady_s);

  private:
    struct Type {
        DemandHistory history;
        Lender lender;
    };
    LendingRules rules_;
    std::map<std::string, Type> types_;
    double next_tick_s_ = 0;
};

}  // namespace arena
