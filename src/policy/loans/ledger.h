// SPDX-License-Identifier: GPL-2.0-or-later
// Who may use each inference node: the state machine of loans, by messages that change nothing when
// they come twice. The simulator and Slurm's side drive the same one; where a lease is kept, and
// how a node is emptied, is theirs. Time is a field of each message.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/cluster.h"
#include "policy/loans/lease.h"

namespace arena {

/// Nodes 0..n-1 that belong to inference. Each is home (inference's), lent (training's) or
/// returning (nobody's): never two of them.
class LoanLedger {
  public:
    explicit LoanLedger(std::size_t nodes) : leases_(nodes) {}

    struct Offer {
        LoanNumber loan = 0;  ///< greater than every one before
        std::vector<NodeIndex> nodes = {};
        std::int64_t at_s = 0, until_s = 0;  ///< until_s 0: until it is asked for
    };
    /// Lends what is home. A number that is not new is a message come again: nothing changes.
    /// Answers the nodes that are newly lent.
    std::vector<NodeIndex> offer(const Offer&);

    struct Reclaim {
        LoanNumber loan = 0;  ///< by which the nodes were lent
        std::vector<NodeIndex> nodes = {};
        std::int64_t deadline_s = 0;  ///< > 0
    };
    /// Nodes of that very loan become returning; one that is already keeps the earlier deadline.
    /// Answers the nodes that are newly returning.
    std::vector<NodeIndex> reclaim(const Reclaim&);

    /// The node is empty: a returning one of that loan is home. Answers whether it became so.
    bool vacated(LoanNumber, NodeIndex);
    /// Lent nodes whose loan has ended by itself: they are returning as if reclaimed then.
    std::vector<NodeIndex> expire(std::int64_t now_s, std::int64_t deadline_s);
    /// Returning nodes whose deadline has come: they must be emptied by force.
    [[nodiscard]] std::vector<NodeIndex> overdue(std::int64_t now_s) const;
    /// As read back after a restart: the lease of the node, and its number counts as seen.
    void restore(NodeIndex, const Lease&);

    /// nullptr: it is home.
    [[nodiscard]] const Lease* lease(NodeIndex) const;
    [[nodiscard]] bool is_inferences(NodeIndex n) const { return !leases_[n]; }
    [[nodiscard]] bool is_trainings(NodeIndex n) const {
        return leases_[n] && leases_[n]->state == LeaseState::lent;
    }
    [[nodiscard]] std::size_t nodes() const { return leases_.size(); }
    /// A number that no loan had so far.
    [[nodiscard]] LoanNumber next_loan() const { return newest_ + 1; }
    bool operator==(const LoanLedger&) const = default;

  private:
    std::vector<std::optional<Lease>> leases_;
    LoanNumber newest_ = 0;
};

}  // namespace arena
