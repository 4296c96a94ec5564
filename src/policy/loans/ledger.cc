// SPDX-License-Identifier: GPL-2.0-or-later
// See ledger.h.
#include "policy/loans/ledger.h"

#include <algorithm>

namespace arena {

std::vector<NodeIndex> LoanLedger::offer(const Offer& message) {
    std::vector<NodeIndex> changed;
    if (message.loan <= newest_) return changed;
    newest_ = message.loan;
    for (const NodeIndex n : message.nodes) {
        if (n >= leases_.size() || leases_[n]) continue;
        leases_[n] = Lease{.loan = message.loan,
                           .state = LeaseState::lent,
                           .since_s = message.at_s,
                           .until_s = message.until_s};
        changed.push_back(n);
    }
    return changed;
}

std::vector<NodeIndex> LoanLedger::reclaim(const Reclaim& message) {
    std::vector<NodeIndex> changed;
    for (const NodeIndex n : message.nodes) {
        if (n >= leases_.size() || !leases_[n] || leases_[n]->loan != message.loan) continue;
        Lease& lease = *leases_[n];
        if (lease.state == LeaseState::returning)
            lease.until_s = std::min(lease.until_s, message.deadline_s);
        if (lease.state != LeaseState::lent) continue;
        lease.state = LeaseState::returning;
        lease.until_s = message.deadline_s;
        changed.push_back(n);
    }
    return changed;
}

bool LoanLedger::vacated(LoanNumber loan, NodeIndex n) {
    const Lease* current = lease(n);
    if (current == nullptr || current->loan != loan || current->state != LeaseState::returning)
        return false;
    leases_[n].reset();
    return true;
}

std::vector<NodeIndex> LoanLedger::expire(std::int64_t now_s, std::int64_t deadline_s) {
    std::vector<NodeIndex> changed;
    for (NodeIndex n = 0; n < leases_.size(); ++n) {
        if (!is_trainings(n) || leases_[n]->until_s == 0 || leases_[n]->until_s > now_s) continue;
        leases_[n]->state = LeaseState::returning;
        leases_[n]->until_s += deadline_s;
        changed.push_back(n);
    }
    return changed;
}

std::vector<NodeIndex> LoanLedger::overdue(std::int64_t now_s) const {
    std::vector<NodeIndex> list;
    for (NodeIndex n = 0; n < leases_.size(); ++n)
        if (leases_[n] && leases_[n]->state == LeaseState::returning &&
            leases_[n]->until_s <= now_s)
            list.push_back(n);
    return list;
}

void LoanLedger::restore(NodeIndex n, const Lease& lease) {
    if (n >= leases_.size()) return;
    leases_[n] = lease;
    newest_ = std::max(newest_, lease.loan);
}

const Lease* LoanLedger::lease(NodeIndex n) const {
    return n < leases_.size() && leases_[n] ? &*leases_[n] : nullptr;
}

}  // namespace arena
