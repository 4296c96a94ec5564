// SPDX-License-Identifier: GPL-2.0-or-later
// Loans in slurmctld: who runs on nodes of inference, the partition for lent nodes, and the
// reservations that guard them. A reservation is saved and restored by Slurm itself, so that there
// is no moment after a restart in which inference could start on a lent node; a shorter list of
// inference's partition would be the whole one again by then.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plugin/sched/slurm/slurm_util.h"

namespace arena {

LoanFacts read_loan_facts(const LoanPlaces& places);
std::string set_partition_nodes(const std::string& partition,
                                const std::vector<std::string>& nodes);
std::string guard_node(const std::string& node, const LoanFacts::Guard& guard);
std::string save_all_nodes();

/// For its scope, and under the write locks, guards of lent nodes stop nobody: a job of the
/// partition for lent nodes is looked at, or started. Guards of returning nodes hold.
class PassingGuards {
  public:
    explicit PassingGuards(bool passes);
    ~PassingGuards();
    PassingGuards(const PassingGuards&) = delete;
    PassingGuards& operator=(const PassingGuards&) = delete;

  private:
    std::vector<std::pair<slurmctld_resv_t*, bitstr_t*>> nodes_;
};

}  // namespace arena
